"""The tutorial with three brokers of Kafka's documentation, from the sample configurations of this repository.

Three real processes on Apache ZooKeeper 3.8, on 3.9 under a chroot, or on our registry, with Kafka 3.9's tools or ours.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kavka_compat.apache import ApacheKafka
from kavka_compat.broker_processes import BrokerProcesses
from kavka_compat.our_tools import our_tool
from kavka_compat.ours import kavka_command
from kavka_compat.served import run_served
from kavka_compat.zookeeper import run_ensemble

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

_CONFIGURATIONS = Path(__file__).parents[2] / "config"
_FILES = ("server.properties", "server-1.properties", "server-2.properties")
_CHROOT = "/kafka/one"
_PARTITION = re.compile(r"Partition: 0\s+Leader: (\S+)\s+Replicas: (\S+)\s+Isr: (\S*)")

Tool = Callable[..., list[str]]
"""Run a tool to its end with a bootstrap, insist on exit code 0, return its lines: `tool("topics", bootstrap, …)`."""


class Cluster(BrokerProcesses):
    """The brokers of the three files, on free ports and in directories of the test."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        """Start none yet."""
        super().__init__(directory, range(len(_FILES)))
        self._zookeeper = zookeeper

    def start(self, *brokers: int) -> None:
        """Start brokers, and return when all of them say that they are ready."""
        for broker in brokers:
            self.launch(broker)
        self.wait_ready(*brokers)

    def _command(self, number: int) -> Sequence[str]:
        overrides = (
            f"zookeeper.connect={self._zookeeper}",
            f"listeners=PLAINTEXT://{self.address(number)}",
            f"log.dirs={self._directory}/kafka-logs-{number}",
        )
        words = [word for override in overrides for word in ("--override", override)]
        return kavka_command("server-start", str(_CONFIGURATIONS / _FILES[number]), *words)

    def stop(self) -> None:
        """End all cleanly."""
        codes = {broker: running.stop(60) for broker, running in sorted(self._running.items())}
        assert set(codes.values()) == {0}, codes


_PAIRS = [
    pytest.param(
        ("zookeeper-3.8", "apache"), id="zookeeper-with-kafkas-tools", marks=pytest.mark.long
    ),
    pytest.param(("served", "kavka"), id="served-with-our-tools"),
    pytest.param(
        ("zookeeper-3.9", "kavka"),
        id="zookeeper-3.9-under-a-chroot-with-our-tools",
        marks=pytest.mark.long,
    ),
    pytest.param(("zookeeper-3.8", "kavka"), id="zookeeper-with-our-tools", marks=pytest.mark.long),
    pytest.param(("served", "apache"), id="served-with-kafkas-tools", marks=pytest.mark.long),
]
"""The registry and the tools of a run."""


@pytest.fixture(params=_PAIRS)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Give a registry's name and a tool's."""
    chosen: tuple[str, str] = request.param
    return chosen


@pytest.fixture
def registry(pair: tuple[str, str], tmp_path: Path) -> Iterator[str]:
    """Give the `zookeeper.connect` of a registry."""
    if pair[0] == "served":
        with run_served(tmp_path / "registry") as served:
            yield served.connect
        return
    release = pair[0].removeprefix("zookeeper-")
    chroot = _CHROOT if release == "3.9" else ""
    with run_ensemble(tmp_path, release=release) as ensemble:
        yield f"{ensemble.connect}{chroot}"


@pytest.fixture
def tool(pair: tuple[str, str]) -> Tool:
    """Apache Kafka 3.9's tools, or ours."""
    if pair[1] == "kavka":

        def ours(name: str, bootstrap: str, *arguments: str, stdin: str = "") -> list[str]:
            return our_tool(name, "--bootstrap-server", bootstrap, *arguments, stdin=stdin).lines

        return ours
    kafka = ApacheKafka("3.9")

    def apache(name: str, bootstrap: str, *arguments: str, stdin: str = "") -> list[str]:
        at = ("--bootstrap-server", bootstrap)
        return kafka.check(f"kafka-{name}", *at, *arguments, stdin=stdin).lines

    return apache


@contextmanager
def _cluster(directory: Path, zookeeper: str) -> Iterator[Cluster]:
    cluster = Cluster(directory, zookeeper)
    try:
        yield cluster
        cluster.stop()
    finally:
        cluster.abandon()


def _described(tool: Tool, cluster: Cluster, topic: str) -> tuple[int, list[int], list[int]]:
    """Return leader, replicas and in-sync set of the topic's only partition."""
    summary, partition = tool("topics", cluster.bootstrap, "--describe", "--topic", topic)
    assert f"Topic: {topic}\t" in summary
    assert "PartitionCount: 1\t" in summary
    found = _PARTITION.search(partition)
    assert found is not None, partition
    leader, replicas, in_sync = found.groups()
    return int(leader), [int(n) for n in replicas.split(",")], [int(n) for n in in_sync.split(",")]


def _described_when(
    tool: Tool, cluster: Cluster, topic: str, holds: Callable[[list[int]], bool]
) -> tuple[int, list[int], list[int]]:
    """Look, each time with a process of its own, until it holds for the in-sync set, or time is up."""
    deadline = time.monotonic() + 90
    while True:
        leader, replicas, in_sync = _described(tool, cluster, topic)
        if holds(in_sync) or time.monotonic() > deadline:
            return leader, replicas, in_sync


def _create(tool: Tool, cluster: Cluster, topic: str, factor: int) -> None:
    shape = ("--replication-factor", str(factor), "--partitions", "1")
    created = tool("topics", cluster.bootstrap, "--create", *shape, "--topic", topic)
    assert created == [f"Created topic {topic}."]


def _consume(tool: Tool, cluster: Cluster, topic: str, *until: str) -> list[str]:
    return tool("console-consumer", cluster.bootstrap, "--from-beginning", "--topic", topic, *until)


def test_the_tutorial_with_three_brokers(tmp_path: Path, registry: str, tool: Tool) -> None:
    topic = "my-replicated-topic"
    messages = ["my test message 1", "my test message 2"]
    with _cluster(tmp_path, registry) as cluster:
        cluster.start(0)
        _create(tool, cluster, "test", 1)
        cluster.start(1, 2)
        _create(tool, cluster, topic, 3)
        leader, replicas, in_sync = _described(tool, cluster, topic)
        assert leader == replicas[0]
        assert sorted(replicas) == sorted(in_sync) == [0, 1, 2]
        assert _described(tool, cluster, "test") == (0, [0], [0])

        stdin = "".join(f"{message}\n" for message in messages)
        tool("console-producer", cluster.bootstrap, "--topic", topic, stdin=stdin)
        assert _consume(tool, cluster, topic, "--max-messages", "2") == messages

        cluster.kill(leader)
        left = [broker for broker in replicas if broker != leader]
        now = _described_when(tool, cluster, topic, lambda in_sync: in_sync == left)
        assert now == (left[0], replicas, left)
        assert _consume(tool, cluster, topic, "--max-messages", "2") == messages

        stdin = "while one is away\n"
        tool("console-producer", cluster.bootstrap, "--topic", topic, stdin=stdin)
        cluster.start(leader)
        now = _described_when(tool, cluster, topic, lambda in_sync: len(in_sync) == 3)
        assert now[1] == replicas
        assert sorted(now[2]) == [0, 1, 2]
        everything = [*messages, "while one is away"]
        assert _consume(tool, cluster, topic, "--timeout-ms", "6000") == everything
