"""`kavka zookeeper-server-start`: its arguments, its refusals, its life in the background."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from kavka.cli.main import main
from kavka_compat.our_tools import our_tool


def test_help_names_the_file_and_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zookeeper-server-start", "--help"]) == 0
    assert "[zookeeper.properties]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["missing.properties"], "cannot read missing.properties"),
        (["--port", "1"], "unknown option --port"),
        (["--override", "clientPort"], "--override needs property=value"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["zookeeper-server-start", *arguments]) == 1
    assert reason in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        properties = tmp_path / "zookeeper.properties"
        properties.write_text(
            f"dataDir={tmp_path}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        )
        said = our_tool("zookeeper-server-start", str(properties), code=1)
    assert f"Address already in use: 127.0.0.1:{port}" in said.err


def test_a_registry_serves_in_the_background_until_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    properties = tmp_path / "zookeeper.properties"
    properties.write_text(
        f"dataDir={tmp_path}/data\nclientPort=0\nclientPortAddress=127.0.0.1\ntickTime=2000\n"
        "maxClientCnxns=0\nadmin.enableServer=false\nnonsense=1\nclientPrt=1\n"
    )
    said = our_tool("zookeeper-server-start", "-daemon", str(properties)).out
    process = int(said.partition("(process ")[2].partition(",")[0])
    try:
        port = int(said.partition("127.0.0.1:")[2].partition(" ")[0])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"srvr")
            with client.makefile("rb") as response:
                assert b"Mode: standalone" in response.read()
    finally:
        os.kill(process, signal.SIGTERM)
    log = (tmp_path / "logs" / "zookeeper.log").read_text()
    assert "unknown setting ignored name=nonsense (" in log
    assert "unknown setting ignored name=clientPrt; did you mean clientPort? (" in log
    assert "setting without effect name=admin.enableServer" in log
