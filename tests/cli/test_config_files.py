"""`kavka configs --add-config-file`: passwords from a file or a pipe, which `ps` and the shell's history do not see."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from kavka.cli.main import main
from kavka.net.event_loop import MeasuredEventLoop
from support.sasl import served


@pytest.fixture
def user(tmp_path: Path) -> list[str]:
    return ["configs", "--log-dir", str(tmp_path / "data"), "--alter", "--user", "shop"]


def of_pipe(text: str) -> str:
    """Return the name of a pipe with the text, as a shell's <(...) makes it."""
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    os.close(writing)
    return f"/dev/fd/{reading}"


def test_a_pipe_is_read_once(user: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    file = of_pipe("SCRAM-SHA-512=iterations=8192,password=a=b c\n")
    assert main([*user, "--add-config-file", file]) == 0
    assert main([*user[:3], "--describe", "--user", "shop"]) == 0
    assert "SCRAM-SHA-512=iterations=8192" in capsys.readouterr().out


def test_a_pipe_is_read_once_for_a_broker_that_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "admin.properties"

    def story(at: str) -> int:
        options = ["configs", "--bootstrap-server", at, "--command-config", str(file)]
        pipe = of_pipe("SCRAM-SHA-512=password=secret\n")
        assert main([*options, "--alter", "--user", "shop", "--add-config-file", pipe]) == 0
        return main([*options, "--describe", "--user", "shop"])

    async def with_broker() -> None:
        async with served(tmp_path) as server:
            config = server.config("alice", "alice secret")
            file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
            at = config["bootstrap.servers"]
            assert await asyncio.to_thread(story, at) == 0

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(with_broker())
    assert "SCRAM-SHA-512=iterations=4096" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no settings"),
        ("SCRAM-SHA-512=[password=secret]", "without brackets: SCRAM-SHA-512=iterations=8192"),
    ],
)
def test_what_sets_nothing_is_refused(
    user: list[str], capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    assert main([*user, "--add-config-file", of_pipe(text)]) == 1
    printed = capsys.readouterr()
    assert said in printed.err + printed.out
    assert "secret]" not in printed.err + printed.out


def test_a_missing_file_is_named(user: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*user, "--add-config-file", "/nowhere/shop.properties"]) == 1
    assert "NoSuchFileException: /nowhere/shop.properties" in capsys.readouterr().err
