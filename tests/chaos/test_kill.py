"""kill -9 under load: what was acknowledged is there, once and in order, and the indexes are those of a rebuild.

A killed process leaves the page cache behind, so nothing that it wrote is lost; what must hold is that recovery
finds the end of the log, the producers' sequences and the indexes again. `KAVKA_KILLS` says how often; `make chaos`
means 100.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.apache import SMALL, ApacheKafka
from kavka_compat.brokers import Broker
from kavka_compat.dump_log import assert_kafka_accepts
from kavka_compat.ours import start_kavka
from kavka_compat.processes import free_port
from support.waiting import wait_until

_KILLS = int(os.environ.get("KAVKA_KILLS", "8"))
_APACHE_KILLS = 2
_PARTITIONS = 3
_SETTINGS = {
    "log.segment.bytes": str(256 * 1024),
    "log.index.interval.bytes": "1024",
    "offsets.topic.num.partitions": "1",
}
_PATIENT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120 + 10 * _KILLS)]

Start = Callable[[], Broker]


class Load:
    """An idempotent producer that writes numbers, 0 and up in each partition, until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        """Start writing in a thread."""
        self.sent = [0] * _PARTITIONS
        self.acknowledged: list[list[tuple[int, int]]] = [[] for _ in range(_PARTITIONS)]
        """For each partition, (number, offset) in the order of the acknowledgements."""
        self.errors: list[str] = []
        self._stop = Event()
        settings = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 2,
            "batch.num.messages": 200,
            "delivery.timeout.ms": 120_000,
            "queue.buffering.max.messages": 20_000,
        }
        self._producer = Producer({**settings, **_PATIENT}, logger=_silent())
        self._thread = Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def count(self) -> int:
        """Return how many records were acknowledged."""
        return sum(map(len, self.acknowledged))

    def finish(self) -> None:
        """Stop writing and wait until all is acknowledged."""
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), "a call of the producer does not return"
        left = self._producer.flush(100)
        self._producer.close()
        assert (left, self.errors) == (0, [])
        assert [len(a) for a in self.acknowledged] == self.sent

    def _run(self) -> None:
        while not self._stop.is_set() and not self.errors:
            try:
                for partition in range(_PARTITIONS):
                    self._send(partition)
            except BufferError:
                self._producer.poll(0.01)
            self._producer.poll(0)
            time.sleep(0.003)  # time: the rate, always in the middle of something

    def _send(self, partition: int) -> None:
        for _ in range(10):
            value = b"%d %s" % (self.sent[partition], bytes(80))
            self._producer.produce("t", value, partition=partition, on_delivery=self._delivered)
            self.sent[partition] += 1

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            number = int(message.value().split()[0])
            self.acknowledged[message.partition()].append((number, message.offset()))


def _silent() -> Any:
    """Return a logger for librdkafka that keeps its reports of broken connections to itself."""
    import logging

    logger = logging.getLogger("librdkafka of the load")
    logger.setLevel(logging.CRITICAL)
    return logger


@contextmanager
def _committer(bootstrap: str) -> Iterator[Consumer]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False}
    with Consumer({**settings, **_PATIENT}, logger=_silent()) as consumer:
        yield consumer


def _commit(consumer: Consumer, offset: int) -> None:
    """Commit `offset` for partition 0, patiently: the broker has just come back."""

    def commits() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
        except KafkaException:
            return False
        return True

    wait_until(commits, 60, "an offset is committed")


def _committed(consumer: Consumer) -> int:
    offsets: list[int] = []

    def reads() -> bool:
        with suppress(KafkaException):
            offsets.extend(
                found.offset for found in consumer.committed([TopicPartition("t", 0)], timeout=10)
            )
        return bool(offsets)

    wait_until(reads, 60, "an offset is read")
    return offsets[0]


def _kill_under_load(start: Start, kills: int, show_progress: Callable[[str], None]) -> Broker:
    """Kill and restart the broker `kills` times, check what it holds, and return it stopped."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    broker = start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap}, logger=_silent())
    admin.create_topics([NewTopic("t", _PARTITIONS, 1)])["t"].result(30)
    load = Load(broker.bootstrap)
    try:
        with _committer(broker.bootstrap) as consumer:
            for kill in range(1, kills + 1):
                before = load.count()
                _commit(consumer, kill)
                _wait_for_progress(load, before)
                time.sleep(rng.uniform(0, 0.3))  # time: when it dies is chance
                broker.process.kill()
                broker = start()
                assert _committed(consumer) == kill, f"a committed offset was lost (seed {seed})"
                if kill % 10 == 0 or kill == kills:
                    show_progress(f"{kill} of {kills} kills, {load.count()} records acknowledged")
        load.finish()
        _check(broker, load)
    finally:
        load._stop.set()
        broker.process.stop()
    return broker


def _wait_for_progress(load: Load, before: int) -> None:
    wait_until(
        lambda: load.errors or load.count() >= before + 300, 60, "300 records are acknowledged"
    )
    assert not load.errors, load.errors[:3]


def _check(broker: Broker, load: Load) -> None:
    """Insist that each partition holds its numbers once, in order, where the acknowledgements said."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "check"}
    with Consumer({**settings, "check.crcs": True}) as consumer:
        for partition in range(_PARTITIONS):
            topic_partition = TopicPartition("t", partition, 0)
            consumer.assign([topic_partition])
            first, last = consumer.get_watermark_offsets(topic_partition, timeout=30)
            assert (first, last) == (0, load.sent[partition]), "records were lost or doubled"
            found: list[tuple[int, int]] = []
            while len(found) < last:
                batch = consumer.consume(min(10_000, last - len(found)), timeout=30)
                assert batch, f"partition {partition} ends at {len(found)} of {last}"
                found += [(int((m.value() or b"").split()[0]), m.offset() or 0) for m in batch]
            assert [number for number, _ in found] == list(range(last)), "records are out of order"
            assert found == load.acknowledged[partition], (
                "an acknowledged offset is another record's"
            )


def _index_bytes(logs: Path) -> dict[str, bytes]:
    """Return the contents of all indexes of topic `t` by their path."""
    paths = (p for p in logs.glob("t-*/*") if p.suffix in (".index", ".timeindex"))
    return {str(path.relative_to(logs)): path.read_bytes() for path in paths}


@pytest.fixture
def show_progress(capfd: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Show progress although pytest captures output."""

    def show(text: str) -> None:
        with capfd.disabled():
            print(f"\n  {text}", end="", flush=True)

    return show


def test_kavka_loses_doubles_and_reorders_nothing_when_killed(
    tmp_path: Path, show_progress: Callable[[str], None]
) -> None:
    port = free_port()
    broker = _kill_under_load(lambda: start_kavka(tmp_path, _SETTINGS, port), _KILLS, show_progress)
    for partition in range(_PARTITIONS):
        assert_kafka_accepts(broker.log_directory / f"t-{partition}")

    kept = _index_bytes(broker.log_directory)
    rebuilt = tmp_path / "rebuilt"
    shutil.copytree(broker.log_directory, rebuilt / "logs")
    for path in kept:
        (rebuilt / "logs" / path).unlink()
    (rebuilt / "logs" / ".kafka_cleanshutdown").unlink()
    start_kavka(rebuilt, _SETTINGS).process.stop()
    assert _index_bytes(rebuilt / "logs") == kept


@pytest.mark.long
def test_apache_kafka_passes_the_same_test(
    tmp_path: Path, show_progress: Callable[[str], None]
) -> None:
    kafka = ApacheKafka("3.9")
    # a broker that comes back waits until the controller has given up the session of the killed one
    quick = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}
    port = kafka.format_kraft(tmp_path, {**_SETTINGS, **quick})

    def start() -> Broker:
        broker = kafka.start_formatted(tmp_path, port, SMALL)
        broker.process.wait_for("Kafka Server started (", 60)
        return broker

    broker = _kill_under_load(start, _APACHE_KILLS, show_progress)
    for partition in range(_PARTITIONS):
        assert_kafka_accepts(broker.log_directory / f"t-{partition}")
