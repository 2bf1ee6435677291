"""Three brokers of one kind, each a process of its own, as one thing to be driven and measured."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from cluster.workloads import PARTITIONS, Replication
from kavka_compat.apache import SHIPPED_BROKER, ApacheKafka
from kavka_compat.brokers import Broker
from kavka_compat.ours import launch_kavka
from kavka_compat.processes import free_port

BROKERS = 3
_SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}
"""Those of a cluster that differ from Kafka's defaults; both kinds get them."""
_READY = {"apache": "[KafkaServer id={}] started (", "kavka": "kavka broker {} ready: "}


class Trio:
    """Three brokers that serve."""

    def __init__(self, brokers: list[Broker]) -> None:
        """Own them: `stop` ends all."""
        self._brokers = brokers

    @property
    def bootstrap(self) -> str:
        """All three."""
        return ",".join(broker.bootstrap for broker in self._brokers)

    def cpu_seconds(self) -> float:
        """Return the processor time of all three since they started."""
        return sum(broker.process.cpu_seconds() for broker in self._brokers)

    def resident_bytes(self) -> int:
        """Return the resident memory of all three."""
        return sum(broker.process.resident_bytes() for broker in self._brokers)

    def peak_resident_bytes(self) -> int:
        """Return the sum of the most that each ever had."""
        return sum(broker.process.peak_resident_bytes() for broker in self._brokers)

    def stop(self) -> None:
        """End all, the controller last if it is the first."""
        for broker in reversed(self._brokers):
            with contextlib.suppress(RuntimeError):
                broker.process.stop(60)

    # -- topics

    def create(self, topic: str, how: Replication, partitions: int = PARTITIONS) -> None:
        """Create a topic, and return when every broker knows that all its replicas are in sync."""
        made = NewTopic(topic, partitions, how.factor, config=how.topic_settings)
        admin = _admin(self.bootstrap)
        admin.create_topics([made])[topic].result(60)
        for broker in self._brokers:
            asked = _admin(broker.bootstrap)
            _until(partial(_is_in_sync, asked, topic, partitions, how.factor), f"{topic} is made")

    def delete(self, topic: str) -> None:
        """Delete a topic; its files go a minute later, as by default."""
        admin = _admin(self.bootstrap)
        admin.delete_topics([topic])[topic].result(60)

    def wait_until_equal(self, topic: str, partitions: int = PARTITIONS) -> None:
        """Return when all replicas of a topic with three of them are equally long: what is behind is still work."""
        _until(lambda: all(self._is_equal(topic, n) for n in range(partitions)), f"{topic} copied")

    def _is_equal(self, topic: str, partition: int) -> bool:
        sizes = {
            sum(path.stat().st_size for path in directory.glob("*.log"))
            for broker in self._brokers
            if (directory := broker.log_directory / f"{topic}-{partition}").is_dir()
        }
        return len(sizes) == 1

    def wait_until_complete(self) -> None:
        """Return when every broker knows of all of them."""
        for broker in self._brokers:
            _until(partial(_knows_all, _admin(broker.bootstrap)), f"{broker.bootstrap} knows all")


@contextmanager
def run_trio(directory: Path, zookeeper: str, apache: ApacheKafka | None) -> Iterator[Trio]:
    """Run three brokers of Apache Kafka with the options of its scripts, or of kavka, below `/<kind>` in ZooKeeper."""
    kind = "kavka" if apache is None else "apache"
    connect = f"{zookeeper}/{kind}"
    with ExitStack() as stack:
        brokers: list[Broker] = []
        for number in range(BROKERS):
            broker = _launch(directory / f"{kind}-{number}", number, connect, apache)
            brokers.append(broker)
            stack.callback(broker.process.stop)
        for number, broker in enumerate(brokers):
            broker.process.wait_for(_READY[kind].format(number), 120)
        trio = Trio(brokers)
        trio.wait_until_complete()
        try:
            yield trio
        finally:
            trio.stop()


def _launch(directory: Path, number: int, connect: str, apache: ApacheKafka | None) -> Broker:
    settings: Mapping[str, str] = {
        **_SETTINGS,
        "broker.id": str(number),
        "zookeeper.connect": connect,
    }
    if apache is None:
        return launch_kavka(directory, settings, free_port())
    return apache.start_with_zookeeper(directory, connect, settings, SHIPPED_BROKER)


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})


def _knows_all(admin: AdminClient) -> bool:
    return len(admin.list_topics(timeout=10).brokers) == BROKERS


def _is_in_sync(admin: AdminClient, topic: str, partitions: int, replicas: int) -> bool:
    known = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return len(known) == partitions and all(
        p.error is None and p.leader >= 0 and len(p.isrs) == replicas for p in known.values()
    )


def _until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            if holds():
                return
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
                raise
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within 60 s: {what}")
        time.sleep(0.05)
