"""Three brokers as real processes: Apache Kafka 3.9 on ZooKeeper, with small heaps, or ours on our registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kavka_compat.apache import SMALL, ApacheKafka
from kavka_compat.asking import wait_until_all_know_all, wait_until_known
from kavka_compat.brokers import Broker
from kavka_compat.ours import launch_kavka
from kavka_compat.processes import free_port
from kavka_compat.served import run_served

_REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "auto.leader.rebalance.enable": "false",
}
"""Settings for replicated internal topics, and for leaders that stay where a test put them."""
_CHEAP = {"num.network.threads": "2", "num.io.threads": "2", "log.cleaner.enable": "false"}


@dataclass(frozen=True)
class RunningCluster:
    """Brokers with the ids 0, 1 and so on, and the `zookeeper.connect` of the ensemble that they share."""

    name: str
    brokers: tuple[Broker, ...]
    zookeeper: str

    @property
    def bootstrap(self) -> str:
        """The value for `bootstrap.servers`."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def wait_until_known(self, topic: str) -> None:
        """Wait until the metadata of each broker has the topic's leader."""
        wait_until_known([broker.bootstrap for broker in self.brokers], topic, 0)


@contextmanager
def run_cluster(
    directory: Path,
    *,
    brokers: int = 3,
    settings: Mapping[str, str] | None = None,
    zookeeper: str = "",
) -> Iterator[RunningCluster]:
    """Run brokers of Apache Kafka 3.9, in the racks `a`, `b` and so on, each with two log directories.

    `zookeeper` is a `zookeeper.connect`; without one the cluster gets a ZooKeeper of its own.
    """
    kafka = ApacheKafka("3.9")
    with ExitStack() as stack:
        if not zookeeper:
            zookeeper = stack.enter_context(kafka.run_zookeeper(directory))
        started = []
        for number in range(brokers):
            home = directory / f"broker-{number}"
            chosen = {**_settings(number, home), **_CHEAP, **(settings or {})}
            broker = kafka.start_with_zookeeper(home, zookeeper, chosen, SMALL)
            stack.callback(broker.process.kill)  # its data are not needed: quicker than a shutdown
            started.append(broker)
        for number, broker in enumerate(started):
            broker.process.wait_for(f"[KafkaServer id={number}] started (", 120)
        wait_until_all_know_all([broker.bootstrap for broker in started])
        yield RunningCluster("apache-3.9", tuple(started), zookeeper)


@contextmanager
def run_kavka_cluster(
    directory: Path, *, brokers: int = 3, settings: Mapping[str, str] | None = None
) -> Iterator[RunningCluster]:
    """Run brokers of ours as `run_cluster` runs Apache Kafka's, on a served registry."""
    with ExitStack() as stack:
        registry = stack.enter_context(run_served(directory / "registry"))
        started = []
        for number in range(brokers):
            home = directory / f"broker-{number}"
            home.mkdir(parents=True)
            chosen = {
                **_settings(number, home),
                "zookeeper.connect": registry.connect,
                "zookeeper.session.timeout.ms": "6000",
                **(settings or {}),
            }
            broker = launch_kavka(home, chosen, free_port())
            stack.callback(broker.process.kill)
            started.append(broker)
        for broker in started:
            broker.process.wait_for("ready: ", 60)
        wait_until_all_know_all([broker.bootstrap for broker in started])
        yield RunningCluster("kavka", tuple(started), registry.connect)


def _settings(number: int, home: Path) -> dict[str, str]:
    return {
        **_REPLICATED,
        "broker.id": str(number),
        "broker.rack": chr(ord("a") + number),
        "log.dirs": f"{home}/logs,{home}/more",
    }
