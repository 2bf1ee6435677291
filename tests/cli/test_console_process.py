"""The console beside a broker: `kavka.console.port`."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import urllib.request
from pathlib import Path

import pytest

from kavka.broker.configs.endpoints import Endpoint
from kavka.cli.commands import server_start
from kavka.cli.server import console_process
from kavka.cli.server.console_process import NoConsole, console_words
from kavka_compat.processes import Running
from support.waiting import wait_until

PLAIN = Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")
CLOSED = Endpoint("SASL_SSL", "broker", 9093, "SASL_SSL")
_READY = re.compile(r"console ready address=(\S+) pid=(\d+)")


@pytest.mark.parametrize(
    ("config", "endpoints", "words"),
    [
        ("", [CLOSED, PLAIN], ["--bootstrap-server", "127.0.0.1:9092", "--port", "8080"]),
        ("", [Endpoint("A", "0.0.0.0", 1, "PLAINTEXT")], ["--bootstrap-server", "127.0.0.1:1", "--port", "8080"]),
        ("", [Endpoint("A", "::", 1, "PLAINTEXT")], ["--bootstrap-server", "[::1]:1", "--port", "8080"]),
        ("f", [PLAIN, CLOSED], ["--bootstrap-server", "broker:9093", "--port", "8080", "--command-config", "f"]),
    ],
)  # fmt: skip
def test_the_console_asks_at_the_first_listener_that_it_can_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: str,
    endpoints: list[Endpoint],
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f").write_text("security.protocol=SASL_SSL\n")
    assert console_words(" 8080", config, endpoints) == ["console", *words]


def test_a_file_that_fits_no_listener_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    with pytest.raises(NoConsole, match="cannot read"):
        console_words("8080", str(file), [PLAIN])
    file.write_text("security.protocol=SSL\n")
    with pytest.raises(NoConsole, match="no listener is SSL"):
        console_words("8080", str(file), [PLAIN, CLOSED])


def test_without_a_listener_or_the_extra_a_console_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NoConsole, match="Name a file with the settings of its client"):
        console_words("8080", "", [CLOSED])
    words = ["--override", "kavka.console.port=8080"]
    assert server_start.main(["--workers", "2", *words]) == 1
    assert "kavka.console.port is for a lone broker" in capsys.readouterr().err
    monkeypatch.setattr(console_process, "MODULES", ("jinja2", "not_installed"))
    assert server_start.main(words) == 1
    assert "needs not_installed, which is not installed: `pip install 'kavka[console]'`" in (
        capsys.readouterr().err
    )


def lives(process: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_console_is_started_again_and_ends_with_its_broker(
    tmp_path: Path, number: signal.Signals
) -> None:
    overrides = (
        "listeners=PLAINTEXT://127.0.0.1:0",
        f"log.dirs={tmp_path}/logs",
        "kavka.console.port=0",
    )
    words = [word for override in overrides for word in ("--override", override)]
    broker = Running([sys.executable, "-m", "kavka", "server-start", *words], tmp_path / "out")
    try:
        broker.wait_for("console ready", 60)
        [(address, first)] = _READY.findall(broker.text())
        with urllib.request.urlopen(f"{address}/api/overview", timeout=30) as response:
            assert len(json.load(response)["brokers"]) == 1
        os.kill(int(first), signal.SIGKILL)
        wait_until(lambda: len(_READY.findall(broker.text())) == 2, what=broker.text)
        assert "console ended code=-9 restart_s=0.5" in broker.text()
        second = int(_READY.findall(broker.text())[1][1])
        os.kill(broker.pid, number)
        wait_until(lambda: not broker.alive() and not lives(second), what=broker.text)
    finally:
        broker.kill()
