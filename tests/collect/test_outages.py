"""Collectors whose brokers are away, or whose files cannot be read."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.client import Admin
from kavka_compat.brokers import Broker
from kavka_compat.ours import start_kavka
from kavka_compat.processes import Running
from support.collectors import collector, messages, reader

pytestmark = pytest.mark.compat

COMMON = ("--poll-interval", "0.05", "--report-interval", "0.2")


class Restartable:
    """A broker that is killed, and started again on its port."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker = start_kavka(directory)

    def kill(self) -> None:
        self.broker.process.kill()

    def start(self) -> None:
        self.broker = start_kavka(self.directory, port=self.broker.port)


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Restartable]:
    restartable = Restartable(tmp_path / "broker")
    yield restartable
    if restartable.broker.process.alive():
        restartable.broker.process.stop()


def write(log: Path, name: str, count: int) -> list[str]:
    lines = [f"{name} line {number}" for number in range(count)]
    with log.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    return lines


def test_lines_wait_for_a_broker_that_was_killed(
    restartable: Restartable, fresh_name: str, tmp_path: Path
) -> None:
    log, at = tmp_path / "a.log", restartable.broker.bootstrap
    sent = write(log, "before", 10)
    with collector(tmp_path / "out", "files", at, fresh_name, log, *COMMON) as process:
        process.wait_for("collected records=10", 60)
        for number in range(2):
            restartable.kill()
            sent += write(log, f"during {number}", 1000)
            restartable.start()
            sent += write(log, f"after {number}", 10)
            process.wait_for(f"collected records={len(sent)} ", 90)
        assert process.stop() == 0, process.text()
    with reader(at, fresh_name) as topic:
        assert Counter(messages(topic.read_rest())) == Counter(sent)


@pytest.mark.long
def test_a_signal_ends_a_collector_whose_brokers_are_away(
    restartable: Restartable, fresh_name: str, tmp_path: Path
) -> None:
    log, at = tmp_path / "a.log", restartable.broker.bootstrap
    sent = write(log, "before", 10)
    arguments = (log, *COMMON, "--name", fresh_name)
    with collector(tmp_path / "out", "files", at, fresh_name, *arguments) as process:
        process.wait_for("collected records=10", 60)
        restartable.kill()
        sent += write(log, "during", 10)
        process.wait_for("metadata update failed", 60)
        assert process.stop(60) == 1
        assert "have not committed the last transaction" in process.text()
        assert "Traceback" not in process.text()
    restartable.start()
    with collector(tmp_path / "out2", "files", at, fresh_name, *arguments) as process:
        process.wait_for("collected records=10", 90)
        assert process.stop() == 0
    with reader(at, fresh_name) as topic:
        assert messages(topic.read_rest()) == sent


def page_of(process: Running) -> str:
    said = process.wait_for("metrics at http", 30)
    url = re.search(r"http://\S+", said)
    assert url is not None
    with urllib.request.urlopen(url[0], timeout=10) as response:
        text: str = response.read().decode()
    return text


@pytest.mark.long
def test_a_file_that_may_not_be_read_is_read_when_it_may_be(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    """As another user than root, who may read everything."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a collector as another user")
    log, at = tmp_path / "a.log", kavka_broker.bootstrap
    sent = write(log, "a", 3)
    log.chmod(0o000)
    for folder in tmp_path.parents:
        if folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(folder.stat().st_mode | 0o005)
    tmp_path.chmod(0o755)
    nobody = pwd.getpwnam("nobody")
    with collector(
        tmp_path / "out",
        "files",
        at,
        fresh_name,
        log,
        *COMMON,
        "--metrics-port",
        "0",
        user=nobody.pw_uid,
    ) as process:
        process.wait_for("file cannot be read path=", 60)
        assert 'kavka_collect_files{state="waiting"} 1' in page_of(process)
        log.chmod(0o644)
        process.wait_for("collected records=3", 60)
        assert process.stop() == 0
    with reader(at, fresh_name) as topic:
        assert messages(topic.read_rest()) == sent


def test_a_collector_whose_transaction_was_ended_by_brokers_begins_again(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    """A time-out raises the epoch as fencing does; that no other collector has started is seen in the positions."""
    log, at = tmp_path / "a.log", kavka_broker.bootstrap
    sent = write(log, "a", 10)
    (tmp_path / "client.properties").write_text(
        "transaction.timeout.ms=1\n"
    )  # any may have timed out
    config = ("--command-config", tmp_path / "client.properties")
    arguments = (log, *COMMON, "--name", fresh_name)
    with collector(tmp_path / "out", "files", at, fresh_name, *arguments, *config) as process:
        process.wait_for("collected records=10", 60)
        asyncio.run(fence(at, f"kavka-collect-{fresh_name}"))
        sent += write(log, "b", 10)
        process.wait_for("session lost, starting a new one", 60)
        process.wait_for("collected records=20", 60)
        with collector(tmp_path / "out2", "files", at, fresh_name, *arguments) as other:
            other.wait_for("collected ", 60)
            sent += write(log, "c", 10)
            assert process._process.wait(60) == 3, process.text()
            other.wait_for("collected records=10", 60)
            assert other.stop() == 0
    with reader(at, fresh_name) as topic:
        assert messages(topic.read_rest()) == sent


async def fence(bootstrap: str, transactional_id: str) -> None:
    async with Admin({"bootstrap.servers": bootstrap}) as admin:
        await admin.fence_producers([transactional_id])
