"""A broker handles a signal to stop under any load."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from kavka.cli.commands import server_start, zookeeper_server_start
from kavka.cli.server.process import OneLine, listen_for_signals, read_settings, warn_of_readers

_NUMBERS = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture
def handlers_as_before() -> Iterator[None]:
    before = [signal.getsignal(number) for number in _NUMBERS]
    yield
    for number, handler in zip(_NUMBERS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers_as_before")
@pytest.mark.parametrize("number", _NUMBERS)
def test_a_signal_is_handled_while_the_wake_up_pipe_of_the_loop_is_full(number: int) -> None:
    async def story() -> None:
        signalled = listen_for_signals()
        for _ in range(10_000):  # what a pool does that finishes much while the loop is busy
            asyncio.get_running_loop().call_soon_threadsafe(int)
        os.kill(os.getpid(), number)
        await asyncio.wait_for(signalled.wait(), 60)

    asyncio.run(story())


@pytest.mark.parametrize("command", [server_start, zookeeper_server_start])
def test_help_says_where_a_server_in_the_background_logs(
    command: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--help"]) == 0
    said = capsys.readouterr().out
    assert "-daemon" in said
    assert "LOG_DIR, by default logs in the current directory" in " ".join(said.split())


def test_a_name_that_a_client_chose_makes_no_line_of_the_log() -> None:
    values = ("alice\n[2026-01-01 00:00:00] INFO forged", "\u2028")
    record = logging.LogRecord("kavka", logging.INFO, "", 0, "user=%s %s", values, None)
    line = OneLine("%(levelname)s %(message)s").format(record)
    assert line == r"INFO user=alice\n[2026-01-01 00:00:00] INFO forged \u2028"


def test_characters_that_hide_or_turn_what_is_shown_are_escaped() -> None:
    values = ("ad\u200bmin", "\u202enimda\u2066\ufeff")
    record = logging.LogRecord("kavka", logging.INFO, "", 0, "user=%s %s", values, None)
    assert OneLine("%(message)s").format(record) == r"user=ad\u200bmin \u202enimda\u2066\ufeff"


def test_no_core_dump_holds_the_memory_of_a_server() -> None:
    program = (
        "import resource\n"
        "from kavka.cli.server.process import keep_out_of_core_dumps\n"
        "hard = resource.getrlimit(resource.RLIMIT_CORE)[1]\n"
        "keep_out_of_core_dumps()\n"
        "assert resource.getrlimit(resource.RLIMIT_CORE) == (0, hard)\n"
        "print(int(open('/proc/self/coredump_filter').read(), 16))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "0\n"


def test_a_traceback_makes_no_line_that_looks_like_another() -> None:
    try:
        raise ValueError("no such topic\n[2026-01-01 00:00:00] INFO forged\r{}")
    except ValueError:
        failed = sys.exc_info()
    record = logging.LogRecord("kavka", logging.ERROR, "", 0, "request failed", (), failed)
    first, *others = OneLine("%(levelname)s %(message)s").format(record).split("\n")
    assert first == "ERROR request failed"
    assert others[-1] == r"  [2026-01-01 00:00:00] INFO forged\r{}"
    assert all(line.startswith("  ") for line in others)


@pytest.mark.parametrize(
    ("text", "mode", "is_warned_of"),
    [
        ("listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=secret", 0o644, True),
        ("delegation.token.secret.key=secret", 0o604, True),
        ("ssl.key.password=secret", 0o640, False),
        ("broker.id=1", 0o644, False),
    ],
)
def test_a_file_with_passwords_that_everyone_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, mode: int, is_warned_of: bool
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(text)
    file.chmod(mode)
    arguments = [str(file), "--override", "broker.id=2"]
    warn_of_readers(arguments, read_settings(arguments, "")[0])
    said = f"passwords readable by every user file={file}"
    assert [record.getMessage() for record in caplog.records] == [said] * is_warned_of
