"""The scenario of a whole cluster, chosen by a seed on top of that of one broker."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields
from typing import Any

from kavka.ids import TopicPartition
from kavka.simulation.brokers.faults import MODELS, UNCLEAN
from kavka.simulation.links import Weather
from kavka.simulation.random_streams import stream
from kavka.simulation.scenario import PORT, Scenario

REGISTRY = "registry"
REGISTRY_PORT = 2181
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_UNCLEAN = 1 / 8
_THROTTLES = 1 / 4
PAYMENTS = "payments"
"""The topic of transactions."""


def broker_name(number: int) -> str:
    """Return the node of a broker."""
    return f"broker-{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterScenario(Scenario):
    """All choices of a seed."""

    brokers: int
    replication: int
    """Replicas of each partition."""
    serves_registry: bool
    """True if the registry is a process of its own with ZooKeeper's protocol, instead of an object."""
    registry_delay_ms: int
    """Latency of messages to and from a registry that is an object."""
    admins: int
    transactional_ids: int
    rivals: int
    """Producers of one transactional id, which take it from one another."""
    inputs: int
    """Inputs of each transactional id."""
    payments: tuple[TopicPartition, ...]
    """Partitions of the results; none without transactions."""
    transactional: dict[str, str]
    """Settings of these producers."""
    two_phase: bool
    """True if prepared transactions are decided by an arbiter."""
    log_dirs: tuple[str, ...]
    """The log directories of each broker, between which administrators move replicas."""
    factors: tuple[int, ...]
    """Possible replication factors of a reassigned partition."""
    unclean: tuple[str, ...]
    """The topics that allow unclean elections."""
    rack: str
    """Rack of the readers, when they may read from followers (KIP-392); else empty."""
    throttles: bool
    """True if administrators throttle replication (KIP-73)."""

    @property
    def made_topics(self) -> dict[str, int]:
        """All topics of the run with their number of partitions."""
        return self.topics | ({PAYMENTS: len(self.payments)} if self.payments else {})

    def configs_of(self, topic: str) -> dict[str, str]:
        """Return what a topic is made with."""
        allows = {"unclean.leader.election.enable": "true"} if topic in self.unclean else {}
        return self.topic | allows

    @property
    def numbers(self) -> range:
        """The ids of the brokers."""
        return range(1, self.brokers + 1)

    @property
    def servers(self) -> str:
        """Return `bootstrap.servers`."""
        return ",".join(f"{broker_name(number)}:{PORT}" for number in self.numbers)

    def settings(self, number: int) -> dict[str, str]:
        """Return the settings of one broker."""
        own = {
            "broker.id": str(number),
            "listeners": f"PLAINTEXT://{broker_name(number)}:{PORT}",
            "broker.rack": f"rack-{number % 2}",
        }
        if self.serves_registry:
            own["zookeeper.connect"] = f"{REGISTRY}:{REGISTRY_PORT}/kavka"
        return self.broker | own

    def describe(self) -> str:
        """Return all choices, as the first line of a story."""
        shown = {f.name: getattr(self, f.name) for f in fields(self)}
        shown["model"] = f"{self.model.name}: {self.model.says}"
        shown["partitions"] = " ".join(map(str, self.partitions))
        return ", ".join(f"{name}={value}" for name, value in shown.items())

    @classmethod
    def of_cluster(cls, seed: int, brokers: int | None = None) -> ClusterScenario:
        """Return the scenario of a seed; its own choice of the number of brokers may be overruled."""
        source = stream(seed, "cluster scenario")
        alone = Scenario.of(seed)
        model = source.choice(MODELS)
        more = stream(seed, "unclean, racks and throttles")
        if more.random() < _UNCLEAN:
            model = UNCLEAN
        chosen = source.choice([3, 3, 3, 4, 5])
        brokers = chosen if brokers is None else brokers
        replication = min(brokers, 3 if model.name == "power" else source.choice([2, 3, 3, 3]))
        minimum = "2" if replication == 3 and model.name == "power" else source.choice(["1", "2"])
        minimum = minimum if replication > 1 and model is not UNCLEAN else "1"
        inherited = {f.name: getattr(alone, f.name) for f in fields(alone)}
        inherited |= {
            "model": model,
            "broker": _settings(source, alone, replication, minimum) | model.settings,
            "topic": alone.topic | {"min.insync.replicas": minimum},
            "producer": alone.producer
            | {"delivery.timeout.ms": source.choice(["30000", "600000"])},
            "fault_interval_s": source.choice([0.5, 1.5, 4.0]),
            "safety_s": source.uniform(5.0, 25.0),
            "records_each": source.choice([20, 60, 120]),
            "pace_s": source.choice([0.02, 0.1, 0.3]),
            "has_admin": False,
        }
        return cls(
            **inherited,
            brokers=brokers,
            replication=replication,
            serves_registry=source.random() < 0.25,
            registry_delay_ms=source.choice([0, 1, 15]),
            admins=source.choice([0, 1, 1]),
            **_reading(more, inherited),
            unclean=tuple(alone.topics) if model is UNCLEAN else (),
            throttles=more.random() < _THROTTLES,
            **_transactions(stream(seed, "transactions"), replication, minimum, inherited),
            **_placement(stream(seed, "places"), brokers, replication, inherited),
        )


def _reading(source: random.Random, inherited: dict[str, Any]) -> dict[str, Any]:
    """Choose whether readers may read from followers; add what brokers and members need for it to their settings."""
    if source.random() < 0.5:
        return {"rack": ""}
    rack = f"rack-{source.randrange(2)}"
    inherited["broker"] |= {"replica.selector.class": RACK_AWARE}
    inherited["consumer"] = inherited["consumer"] | {"client.rack": rack}
    return {"rack": rack}


def _placement(
    source: random.Random, brokers: int, replication: int, inherited: dict[str, Any]
) -> dict[str, Any]:
    """Choose where replicas may go, with draws of their own; add what brokers need for it to their settings."""
    # A broker stops when its only disk fails; one of two would take its partitions offline, which is another model.
    more = source.random() < 0.5 and inherited["model"].name != "disks"
    log_dirs = ("/data", "/more") if more else ("/data",)
    inherited["broker"] |= {"log.dirs": ",".join(log_dirs)}
    factors: tuple[int, ...] = (replication,)
    if source.random() < 0.5 and inherited["model"].name != "power":
        factors = tuple(range(2, brokers + 1))
    return {"log_dirs": log_dirs, "factors": factors}


def _transactions(
    source: random.Random, replication: int, minimum: str, inherited: dict[str, Any]
) -> dict[str, Any]:
    """Choose the transactional clients, from a random stream of their own; add settings of brokers for them."""
    ids = source.choice([0, 1, 1, 2])
    two_phase = source.random() < 0.25
    if ids:
        inherited["broker"] |= {
            "transaction.state.log.num.partitions": source.choice(["1", "3"]),
            "transaction.state.log.replication.factor": str(replication),
            "transaction.state.log.min.isr": minimum,
            "transaction.state.log.segment.bytes": source.choice(["600", "100000"]),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            "transaction.two.phase.commit.enable": "true" if two_phase else "false",
            "kavka.transaction.version": "2" if two_phase else source.choice(["0", "2"]),
        }
    return {
        "transactional_ids": ids,
        "rivals": source.choice([1, 1, 2]),
        "inputs": 10 if two_phase else source.choice([10, 30]),
        "payments": tuple(
            TopicPartition(PAYMENTS, partition)
            for partition in range(source.randint(1, 3) if ids else 0)
        ),
        "transactional": {
            "transaction.timeout.ms": _time_of_transactions(source, inherited["weather"]),
            "linger.ms": source.choice(["0", "50"]),
            "batch.size": source.choice(["300", "16384"]),
            "max.in.flight.requests.per.connection": source.choice(["1", "5"]),
            "request.timeout.ms": "3000",
            "delivery.timeout.ms": source.choice(["5000", "20000"]),
            "max.block.ms": source.choice(["3000", "20000"]),
        },
        "two_phase": two_phase,
    }


def _time_of_transactions(source: random.Random, weather: Weather) -> str:
    chosen = source.choice(["3000", "10000"])
    # where each way takes up to a tenth of a second, the work of one takes three: hardly any would be done in time
    return "10000" if weather.latency_s >= 0.05 else chosen


def _replica_lag_time(source: random.Random, weather: Weather) -> str:
    chosen = source.choice(["3000", "10000"])
    # of two kilobytes for each way there and back, what a follower has missed may never come in three seconds
    return "10000" if weather.latency_s >= 0.05 and weather.window_bytes <= 2_000 else chosen


def _settings(
    source: random.Random, alone: Scenario, replication: int, minimum: str
) -> dict[str, str]:
    session_ms = source.choice([2_000, 4_000, 6_000])
    chosen = {
        "default.replication.factor": str(replication),
        "offsets.topic.replication.factor": str(replication),
        "min.insync.replicas": minimum,
        "replica.lag.time.max.ms": source.choice(["1000", "3000", "10000"]),
        "replica.fetch.wait.max.ms": source.choice(["100", "500"]),
        "replica.fetch.backoff.ms": source.choice(["50", "500"]),
        "replica.fetch.max.bytes": source.choice(["300", "5000", "1048576"]),
        "num.replica.fetchers": source.choice(["1", "1", "2"]),
        "replica.socket.timeout.ms": _replica_lag_time(source, alone.weather),
        "zookeeper.session.timeout.ms": str(session_ms),
        "zookeeper.connection.timeout.ms": "5000",
        "controller.socket.timeout.ms": source.choice(["2000", "10000"]),
        "auto.leader.rebalance.enable": source.choice(["true", "false"]),
        "leader.imbalance.check.interval.seconds": source.choice(["2", "300"]),
        "controlled.shutdown.enable": source.choice(["true", "true", "false"]),
        "controlled.shutdown.retry.backoff.ms": "300",
        "offset.metadata.max.bytes": "4096",
        "offsets.commit.timeout.ms": "5000",
        "auto.create.topics.enable": "false",
    }
    return alone.broker | chosen
