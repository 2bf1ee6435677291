"""Quotas as other clients see them: the rate is held, beside Apache Kafka, and both obey what either one stored."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
from confluent_kafka import Producer

from kavka.client.admin import DEFAULT_ENTITY, ClientQuotaEntity
from kavka_compat.apache import ApacheKafka
from kavka_compat.asking import wait_until_all_know_all
from kavka_compat.brokers import Broker
from kavka_compat.fixtures import StartBroker
from kavka_compat.ours import run_kavka
from kavka_compat.quotas import (
    Work,
    consuming,
    make_topic,
    producing,
    running,
    set_quota,
)

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

_EVERYBODY = ClientQuotaEntity("ANONYMOUS")
_LIMIT = 400_000
_SHORT_WINDOWS = {"quota.window.num": "3"}
"""A client that was silent may use two seconds' worth at once, and not ten."""


def held(works: list[Work], warm_s: float, measured_s: float) -> float:
    """Return the rate of clients as a share of the limit."""
    with running(works) as meter:
        return meter.rate(warm_s, measured_s) / _LIMIT


def fill(bootstrap: str, topic: str, records: int) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 10_000_000}
    )
    for _ in range(records):
        producer.produce(topic, b"x" * 1000)
    assert producer.flush(60) == 0


def test_librdkafka_keeps_to_the_rates_of_a_producer_and_a_consumer(tmp_path: Path) -> None:
    with run_kavka(tmp_path, _SHORT_WINDOWS) as broker:
        at = broker.bootstrap
        for topic in ("p", "c"):
            make_topic(at, topic)
        fill(at, "c", 10_000)
        set_quota(at, ClientQuotaEntity(None, "p"), {"producer_byte_rate": _LIMIT})
        set_quota(at, ClientQuotaEntity(None, "c"), {"consumer_byte_rate": _LIMIT})
        with (
            running([producing(at, "p", "p")]) as of_producer,
            running([consuming(at, "c", "c")]) as of_consumer,
        ):
            produced = of_producer.rate(4, 6) / _LIMIT
            consumed = of_consumer.bytes / _LIMIT / 10
        assert 0.85 < produced < 1.1
        assert (
            0.3 < consumed < 1.35
        )  # a refused fetch waits for whole seconds of such short windows


@pytest.mark.long
@pytest.mark.timeout(600)
def test_rates_are_held_within_five_percent_for_thirty_seconds(start_broker: StartBroker) -> None:
    with start_broker({}) as broker:
        at = broker.bootstrap
        for topic in ("p", "c", "u"):
            make_topic(at, topic)
        fill(at, "c", 60_000)
        set_quota(at, ClientQuotaEntity(None, "p"), {"producer_byte_rate": _LIMIT})
        set_quota(at, ClientQuotaEntity(None, "c"), {"consumer_byte_rate": _LIMIT})
        shares = {"producer": held([producing(at, "p", "p")], 20, 30)}
        shares["consumer"] = held([consuming(at, "c", "c")], 20, 30)
        set_quota(at, _EVERYBODY, {"producer_byte_rate": _LIMIT})
        users = [producing(at, "u", f"u{number}") for number in range(3)]
        shares["three clients of a user"] = held(users, 20, 30)
        print(broker.name, {name: round(share, 3) for name, share in shares.items()})
        # Kafka's windows let a greedy client use ten seconds' worth again every eleven seconds (decision 048).
        within = 0.05 if broker.is_kavka else 0.4
        assert all(abs(share - 1) <= within for share in shares.values()), shares


def loop_seconds(broker: Broker) -> float:
    """Return the processor time of the broker's first thread, on which its loop runs."""
    pid = broker.process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("linger_ms", [0, 5])
def test_request_time_is_held_within_five_percent_for_thirty_seconds(
    tmp_path: Path, linger_ms: int
) -> None:
    percent = 4.0
    with run_kavka(tmp_path, {}) as broker:
        at = broker.bootstrap
        make_topic(at, "t")
        set_quota(at, ClientQuotaEntity(None, "q"), {"request_percentage": percent})
        with running([producing(at, "t", "q", **{"linger.ms": linger_ms})]) as meter:
            meter.rate(20, 1)  # what a silent client may use at once is used up
            began, before = time.monotonic(), loop_seconds(broker)
            meter.rate(0, 30)
            used = (loop_seconds(broker) - before) / (time.monotonic() - began) * 100
        print(f"linger.ms={linger_ms}: {used:.2f} percent of a processor, quota {percent}")
        assert abs(used / percent - 1) <= 0.05


_WINDOWS_S = 10
_ROUNDS = 5
"""Of 20 s each, of which the first is not measured: bursts of silent clients are used up then."""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_twice_the_request_time_lets_a_client_send_twice_as_much(start_broker: StartBroker) -> None:
    """Apache Kafka has more threads and other costs; alike is that the quota is a share of them.

    Both clients send at the same time, so that what slows the machine slows both; of several windows the median of the
    ratios counts. A throttle is a second at most, so that a client sends in bursts, and windows are many of them long.
    The shares are so large that a request of 16 KB is a small part of what a window allows, and so small that the
    clients, which share this process, could send more.
    """
    with start_broker({"quota.window.num": "3"}) as broker:
        at = broker.bootstrap
        for name in ("half", "one"):
            make_topic(at, name)
        for name, percent in (("half", 1.0), ("one", 2.0)):
            set_quota(at, ClientQuotaEntity(None, name), {"request_percentage": percent})
        with (
            running([producing(at, "half", "half")]) as of_half,
            running([producing(at, "one", "one")]) as of_one,
        ):
            ratios = []
            for number in range(_ROUNDS + 1):
                before = of_half.bytes, of_one.bytes
                of_half.rate(0, 2 * _WINDOWS_S)
                sent = of_half.bytes - before[0], of_one.bytes - before[1]
                assert sent[0] > 0, "the smaller share lets nothing through"
                if number:
                    ratios.append(sent[1] / sent[0])
        shown = " ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{broker.name}: at 2 percent what is sent at 1 percent, times {shown}")
        assert 1.4 <= median(ratios) <= 2.8


def perf_rates(lines: list[str]) -> list[float]:
    """Return the MB a second of each interval of kafka-producer-perf-test."""
    return [
        float(found[1]) for line in lines[:-1] if (found := re.search(r"\(([\d.]+) MB/sec\)", line))
    ]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_javas_tools_keep_to_the_rates(start_broker: StartBroker) -> None:
    tools = ApacheKafka("3.9")
    with start_broker({}) as broker:
        at = broker.bootstrap
        make_topic(at, "t")
        for entity in ("p", "c"):
            key = "producer_byte_rate" if entity == "p" else "consumer_byte_rate"
            tools.check(
                *("kafka-configs", "--bootstrap-server", at, "--alter", "--entity-type", "clients"),
                *("--entity-name", entity, "--add-config", f"{key}={_LIMIT}"),
            )
        produced = tools.check(
            *("kafka-producer-perf-test", "--topic", "t", "--num-records", "20000"),
            *("--record-size", "1000", "--throughput", "-1", "--producer-props"),
            *(f"bootstrap.servers={at}", "client.id=p", "buffer.memory=1000000"),
            seconds=120,
        )
        intervals = perf_rates(produced.lines)[2:8]  # the first two are the burst
        of_producer = sum(intervals) / len(intervals) * 2**20 / _LIMIT
        config = broker.log_directory.parent / "consumer.properties"
        config.write_text("client.id=c\nmax.partition.fetch.bytes=65536\n")
        consumed = tools.check(
            *("kafka-consumer-perf-test", "--bootstrap-server", at, "--topic", "t"),
            *("--messages", "20000", "--consumer.config", str(config), "--timeout", "60000"),
            seconds=120,
        )
        took = consumed.lines[-1].split(", ")
        of_consumer = float(took[3]) * 2**20 / _LIMIT
        print(broker.name, f"producer {of_producer:.3f} consumer {of_consumer:.3f} of the limit")
        # The tool counts values; the broker frames, which are two percent more.
        assert abs(of_producer - 0.98) <= (0.05 if broker.is_kavka else 0.4)
        # From its start on, with ten seconds' worth at once and the join of the group.
        assert abs(of_consumer - 1) <= (0.1 if broker.is_kavka else 0.4)


# -- beside Apache Kafka on ZooKeeper


@pytest.fixture(scope="module")
def on_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, str]]:
    """A broker of Apache Kafka 3.9 in ZooKeeper mode, and its `zookeeper.connect`."""
    directory = tmp_path_factory.mktemp("apache-3.9")
    apache = ApacheKafka("3.9")
    with (
        apache.run_zookeeper(directory) as zookeeper,
        apache.run_broker(directory, "zookeeper", _SHORT_WINDOWS, zookeeper=zookeeper) as broker,
    ):
        yield broker, zookeeper


_CONFIGS = ("kafka-configs", "--bootstrap-server")
_ALICE = ("--entity-type", "users", "--entity-name", "al ice")
COMMANDS = (
    ("--alter", *_ALICE, "--add-config", "producer_byte_rate=1000,request_percentage=1.5"),
    ("--describe", *_ALICE),
    (
        "--alter",
        *_ALICE,
        "--entity-type",
        "clients",
        "--entity-default",
        "--add-config",
        "consumer_byte_rate=7",
    ),
    ("--describe", *_ALICE, "--entity-type", "clients"),
    (
        "--alter",
        "--entity-type",
        "clients",
        "--entity-name",
        "c/d",
        "--add-config",
        "controller_mutation_rate=3",
    ),
    ("--describe", "--entity-type", "clients"),
    ("--alter", *_ALICE, "--add-config", "producer_byte_rate=1.5"),
    ("--alter", *_ALICE, "--add-config", "connection_creation_rate=1"),
    ("--alter", *_ALICE, "--delete-config", "consumer_byte_rate"),
    (
        "--alter",
        "--entity-type",
        "ips",
        "--entity-name",
        "10.0.0.9",
        "--add-config",
        "connection_creation_rate=2.5",
    ),
    (
        "--alter",
        "--entity-type",
        "ips",
        "--entity-name",
        "10.0.0.9",
        "--add-config",
        "connection_creation_rate=2",
    ),
    ("--describe", "--entity-type", "ips"),
    (
        "--alter",
        "--entity-type",
        "ips",
        "--entity-name",
        "10.0.0.9",
        "--delete-config",
        "connection_creation_rate",
    ),
    ("--describe", "--entity-type", "ips"),
)


@pytest.mark.long
def test_kafkas_tool_sees_no_difference(
    on_zookeeper: tuple[Broker, str], kavka_broker: Broker
) -> None:
    tools = ApacheKafka("3.9")
    theirs, _zookeeper = on_zookeeper

    def outcome(broker: Broker, *arguments: str) -> tuple[int, str, str]:
        done = tools.tool(*_CONFIGS, broker.bootstrap, *arguments)
        return done.code, done.out, done.err.replace(broker.bootstrap, "AT")

    for command in COMMANDS:
        assert outcome(kavka_broker, *command) == outcome(theirs, *command), command


@pytest.mark.long
def test_brokers_of_both_kinds_obey_the_same_quotas(
    on_zookeeper: tuple[Broker, str], tmp_path: Path
) -> None:
    apache, zookeeper = on_zookeeper
    settings = {**_SHORT_WINDOWS, "broker.id": "7", "zookeeper.connect": zookeeper}
    with run_kavka(tmp_path, settings) as ours:
        wait_until_all_know_all([ours.bootstrap, apache.bootstrap])
        each = ClientQuotaEntity("ANONYMOUS", DEFAULT_ENTITY)
        for setter, leader, topic in ((apache, 7, "led-by-ours"), (ours, 0, "led-by-apache")):
            set_quota(setter.bootstrap, each, {"producer_byte_rate": _LIMIT})
            make_topic(apache.bootstrap, topic, leader)
            work = producing(ours.bootstrap, topic, topic)
            assert held([work], 3, 3) < 1.3, topic
            set_quota(setter.bootstrap, each, {"producer_byte_rate": None})
        assert held([producing(ours.bootstrap, "led-by-ours", "free")], 1, 2) > 3
