"""`kavka console` as a process."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import urllib.request

import pytest

from kavka.cli.commands import console
from support.console import Cluster


@pytest.mark.slow
def test_the_command_serves_until_it_is_ended(cluster: Cluster) -> None:
    command = [
        "console",
        "--bootstrap-server",
        cluster.bootstrap,
        "--port",
        "0",
        "--history",
        "none",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "kavka", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        assert started.stdout is not None
        line = started.stdout.readline()
        try:
            address = line.split()[2]
            with urllib.request.urlopen(f"{address}/api/overview", timeout=30) as answer:
                assert len(json.load(answer)["brokers"]) == 1
            request = urllib.request.Request(
                f"{address}/api/create-topic",
                json.dumps({"name": "made"}).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert json.load(answer)["location"] == "/topics/made"
        finally:
            started.send_signal(signal.SIGTERM)
        out = started.stdout.read()  # `communicate` would lose what came with the first line
        _, err = started.communicate(timeout=30)
    assert started.returncode == 130, err
    assert line == (
        f"kavka console: {address} shows the cluster at {cluster.bootstrap}. Ctrl-C ends it.\n"
    )
    assert out == ""
    (audited,) = (json.loads(each) for each in err.splitlines() if each.startswith("{"))
    assert audited["action"] == "POST /api/create-topic"
    assert (audited["on"]["name"], audited["result"]) == ("made", "ok")
    assert "Traceback" not in err


def test_no_name_makes_a_second_line_of_the_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("kavka", "kavka.console.access.audit", "uvicorn.error")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        monkeypatch.setattr(logger, "handlers", [])
        monkeypatch.setattr(logger, "propagate", logger.propagate)
    try:
        console._log_to_standard_error()
        loggers[0].error("page failed path=%s", "/a\nb\x1b[2J")
        # Others cause its warnings, as many as they like.
        assert not loggers[2].isEnabledFor(logging.WARNING)
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(r" ERROR page failed path=/a\nb\x1b[2J")
