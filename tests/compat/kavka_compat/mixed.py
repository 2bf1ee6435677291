"""A cluster on one ZooKeeper whose brokers are Apache Kafka's and ours, and may change from one to the other.

A broker keeps its id, its port and its log directory whatever runs it.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kavka.net.peer_security import PLAINTEXT, PeerSecurity
from kavka_compat.apache import SMALL, ApacheKafka, write_properties
from kavka_compat.asking import ask, until, wait_until_all_know_all, wait_until_known
from kavka_compat.broker_processes import BrokerProcesses
from kavka_compat.ours import kavka_command
from kavka_compat.secured import Secured
from kavka_compat.zookeeper import run_ensemble

SESSION_MS = 3000
"""Time for which a killed broker of Apache Kafka stays registered."""
_SETTINGS = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.enable": "false",
    "num.io.threads": "2",
    "num.network.threads": "2",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "replica.lag.time.max.ms": "5000",
    "unclean.leader.election.enable": "false",
    "zookeeper.session.timeout.ms": str(SESSION_MS),
}


class Kind(StrEnum):
    """The program that a broker runs."""

    APACHE = "apache"
    KAVKA = "kavka"


_READY = {Kind.APACHE: "[KafkaServer id={}] started (", Kind.KAVKA: "kavka broker {} ready: "}


class State(NamedTuple):
    """The state of a partition in the registry."""

    leader: int
    leader_epoch: int
    isr: frozenset[int]


class MixedCluster(BrokerProcesses):
    """Brokers by id. None runs before `start`."""

    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        kinds: Mapping[int, Kind],
        settings: Mapping[str, str] | None = None,
        secured: Secured | None = None,
    ) -> None:
        """Choose ports; `kinds` says what runs each broker at first.

        With `secured` the only listener is SASL_SSL, broker N is the user `broker-N`, and the test is `admin`.
        """
        super().__init__(directory, kinds)
        self.kinds = dict(kinds)
        self.zookeeper = f"{zookeeper}/mixed"
        self._apache = ApacheKafka("3.9")
        self._settings = {**_SETTINGS, **(settings or {})}
        self._secured = secured
        self._registry = KazooClient(zookeeper, timeout=10)

    # -- the test's own connections

    @property
    def client(self) -> dict[str, str]:
        """The settings of librdkafka for an administrator."""
        return self.client_at(self.bootstrap)

    def client_at(self, address: str) -> dict[str, str]:
        """Return the settings of an administrator who begins with one broker."""
        own = {} if self._secured is None else self._secured.librdkafka("admin")
        return {"bootstrap.servers": address, **own}

    @property
    def _security(self) -> PeerSecurity:
        return PLAINTEXT if self._secured is None else self._secured.peer("admin")

    # -- processes

    def of(self, kind: Kind) -> list[int]:
        """Return the ids of one kind."""
        return [number for number, its in self.kinds.items() if its is kind]

    def launch(self, number: int, kind: Kind | None = None) -> None:
        """Start a broker, as another kind than before if wanted; it is not ready yet."""
        self.kinds[number] = kind or self.kinds[number]
        super().launch(number)

    def _command(self, number: int) -> Sequence[str]:
        protocol = "PLAINTEXT" if self._secured is None else "SASL_SSL"
        settings = {
            "broker.id": str(number),
            "listeners": f"{protocol}://{self.address(number)}",
            "log.dirs": str(self._directory / f"logs-{number}"),
            "zookeeper.connect": self.zookeeper,
            **self._settings,
        }
        if self._secured is not None:
            settings |= self._secured.broker_settings(f"broker-{number}")
        path = write_properties(self._directory / f"server-{number}.properties", settings)
        if self.kinds[number] is Kind.KAVKA:
            return kavka_command("server-start", str(path))
        return self._apache.command("kafka-server-start", [str(path)], SMALL, level="INFO")

    def _ready_line(self, number: int) -> str:
        return _READY[self.kinds[number]].format(number)

    def start(self, *numbers: int, kind: Kind | None = None) -> None:
        """Start brokers (all, if none is named), and return when all are ready and know of each other."""
        chosen = numbers or tuple(self.kinds)
        for number in chosen:
            self.launch(number, kind)
        self.wait_ready(*chosen)
        wait_until_all_know_all(self.running_addresses, self._security)

    def stop(self, number: int) -> None:
        """End a broker cleanly."""
        code = self._running.pop(number).stop(60)
        # Apache Kafka ends by the signal, ours by exit
        assert code in (0, -signal.SIGTERM, 128 + signal.SIGTERM), code

    def revive(self, number: int, kind: Kind | None = None) -> None:
        """Start a broker that was killed, when its kind can: Apache Kafka's waits until it is forgotten."""
        if (kind or self.kinds[number]) is Kind.APACHE:
            until(lambda: number not in self.registered(), what="the old registration is gone")
        self.start(number, kind=kind)

    @contextmanager
    def paused(self, numbers: Iterable[int]) -> Iterator[None]:
        """Hold processes for the body of a `with`."""
        chosen = [self._running[number] for number in numbers]
        for process in chosen:
            process.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in chosen:
                process.signal(signal.SIGCONT)

    def ask(self, number: int, request: object, version: int | None = None) -> Any:
        """Send a request to one broker, and return its response."""
        return ask(self.address(number), request, version, self._security)

    # -- the registry

    def open_registry(self) -> None:
        """Connect to ZooKeeper; the brokers' root must be there."""
        self._registry.start(30)
        self._registry.ensure_path("/mixed")
        self._registry.chroot = "/mixed"

    def close_registry(self) -> None:
        """Disconnect."""
        self._registry.stop()
        self._registry.close()

    def node(self, path: str) -> Any:
        """Return a znode's JSON, or None."""
        try:
            data, _stat = self._registry.get(path)
        except NoNodeError:
            return None
        return json.loads(data)

    def children(self, path: str) -> list[str]:
        """Return the names below a znode that is there."""
        return sorted(self._registry.get_children(path))

    def registered(self) -> set[int]:
        """Return the live brokers."""
        return {int(name) for name in self.children("/brokers/ids")}

    def controller(self) -> int | None:
        """Return the controller's id, if there is one."""
        node = self.node("/controller")
        return None if node is None else int(node["brokerid"])

    def make_controller(self, number: int) -> None:
        """Let a broker win an election, the others stand still for a moment; return when all brokers say so."""
        while self.controller() != number:
            with self.paused(other for other in self._running if other != number):
                self._registry.delete("/controller")
                until(lambda: self.controller() is not None, what="a controller is elected")
        for asked in self._running:
            admin = AdminClient(self.client_at(self.address(asked)))
            until(
                lambda admin=admin: admin.list_topics(timeout=10).controller_id == number,  # type: ignore[misc]
                what=f"{asked} knows that {number} is the controller",
            )

    def assignment(self, topic: str) -> dict[int, list[int]]:
        """Return the replicas of each partition."""
        node = self.node(f"/brokers/topics/{topic}")
        return {int(partition): replicas for partition, replicas in node["partitions"].items()}

    def state(self, topic: str, partition: int) -> State | None:
        """Return leader and in-sync set of a partition, once it has any."""
        node = self.node(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if node is None:
            return None
        return State(node["leader"], node["leader_epoch"], frozenset(node["isr"]))

    def wait_in_sync(self, *topics: str, seconds: float = 60) -> None:
        """Wait until every replica of topics is in sync."""
        for topic in topics:
            until(lambda topic=topic: self._is_in_sync(topic), seconds, f"{topic} is in sync")  # type: ignore[misc]

    def wait_until_known(self, topic: str, partition: int) -> None:
        """Wait until every broker that runs returns the leader of a partition."""
        wait_until_known(self.running_addresses, topic, partition, self._security)

    def _is_in_sync(self, topic: str) -> bool:
        for partition, replicas in self.assignment(topic).items():
            state = self.state(topic, partition)
            if state is None or state.leader < 0 or state.isr != set(replicas):
                return False
        return True

    # -- the logs

    def partition_directory(self, number: int, topic: str, partition: int) -> Path:
        """Return where a broker keeps a replica."""
        return self._directory / f"logs-{number}" / f"{topic}-{partition}"

    def log_bytes(self, number: int, topic: str, partition: int) -> bytes:
        """Return all segments of a replica, one after another."""
        directory = self.partition_directory(number, topic, partition)
        return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))

    def assert_equal_logs(self, *topics: str) -> int:
        """Insist that all replicas of topics hold the same bytes; return how many. Call it after the last write."""
        total = 0
        for topic in topics:
            for partition, (first, *others) in self.assignment(topic).items():
                for other in others:
                    until(
                        lambda topic=topic, at=partition, first=first, other=other: (  # type: ignore[misc]
                            self.log_bytes(first, topic, at) == self.log_bytes(other, topic, at)
                        ),
                        20,
                        f"{topic}-{partition} is the same on {first} and {other}",
                    )
                total += len(self.log_bytes(first, topic, partition))
        return total


C = TypeVar("C", bound=MixedCluster)


@contextmanager
def run_mixed(
    directory: Path,
    kinds: Mapping[int, Kind],
    settings: Mapping[str, str] | None = None,
    secured: Secured | None = None,
    before: Callable[[MixedCluster], None] = lambda _: None,
) -> Iterator[MixedCluster]:
    """Run brokers on a ZooKeeper of their own; `before` is called when that runs, before the brokers start."""
    with run_ensemble(directory) as ensemble:
        cluster = MixedCluster(directory, ensemble.connect, kinds, settings, secured)
        with running(cluster, before):
            yield cluster


@contextmanager
def running(cluster: C, before: Callable[[C], None]) -> Iterator[None]:
    """Run the brokers of a cluster whose ZooKeeper runs; `before` is called before they start."""
    try:
        cluster.open_registry()
        before(cluster)
        cluster.start()
        yield
    finally:
        cluster.abandon()
        cluster.close_registry()
