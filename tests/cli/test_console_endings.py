"""Ends of a console consumer that is refused, or whose reader goes."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from kavka.cli.commands.console_consumer import main
from kavka.cli.text.standard_streams import watched_reader
from kavka.testing.local_cluster import LocalCluster

HERE = ["--topic", "t", "--group", "g", "--from-beginning", "--timeout-ms", "30000"]


@pytest.mark.kavka_cluster(
    brokers=1,
    settings={
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "group.initial.rebalance.delay.ms": "0",
    },
)
@pytest.mark.timeout(60)
def test_a_refused_group_is_a_failure(
    kavka_cluster: LocalCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--bootstrap-server", kavka_cluster.bootstrap_servers, *HERE]
    assert main(words) == 1
    shown = capfd.readouterr()
    assert "Error processing message, terminating consumer process" in shown.err
    assert "AuthorizationException" in shown.err
    assert main([*words, "--json"]) == 1
    failure = json.loads(capfd.readouterr().err)
    assert failure["error"]["code"].endswith("AUTHORIZATION_FAILED")


def test_a_pipe_says_that_its_reader_has_gone_though_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, writing = os.pipe()

    async def wait() -> None:
        gone = asyncio.Event()
        with watched_reader(asyncio.get_running_loop(), gone.set):
            await asyncio.sleep(0)
            assert not gone.is_set()
            os.close(reading)
            await asyncio.wait_for(gone.wait(), 30)

    with open(writing, "w") as output:
        monkeypatch.setattr("sys.stdout", output)
        asyncio.run(wait())


def test_no_other_output_is_watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def watch() -> None:
        with watched_reader(asyncio.get_running_loop(), lambda: pytest.fail("it is read")):
            await asyncio.sleep(0)

    with (tmp_path / "output").open("w") as output:
        monkeypatch.setattr("sys.stdout", output)
        asyncio.run(watch())
