"""A compacted topic: the same traffic for any broker, waiting until it is cleaned, and what its files hold then."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from kavka.wire.records.batch import decode_records
from kavka.wire.records.header import walk
from kavka_compat.asking import until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPIC = "compacted"
SEGMENT_BYTES = 16_384
CLEANER = {
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "1",
}
Row = tuple[bytes, bytes | None]


class Batch(NamedTuple):
    """Fields of a batch without its producer and time."""

    base_offset: int
    last_offset: int
    record_count: int
    is_control: bool
    is_transactional: bool
    has_delete_horizon: bool
    codec: str


class Content(NamedTuple):
    """The content of the files of a partition."""

    batches: list[Batch]
    records: list[tuple[int, bytes | None, bytes | None]]
    """Offset, key and value, without those of control batches."""


class CompactedTopic:
    """The topic on one broker. It is not cleaned until `clean`."""

    def __init__(self, bootstrap: str, log_directory: Path, **settings: str) -> None:
        """Create it."""
        self.partition = log_directory / f"{TOPIC}-0"
        self._bootstrap = bootstrap
        self._checkpoint = log_directory / "cleaner-offset-checkpoint"
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._source = random.Random(7)
        self._fillers = 0
        config = {
            "cleanup.policy": "compact",
            "segment.bytes": str(SEGMENT_BYTES),
            "index.interval.bytes": "512",
            "min.cleanable.dirty.ratio": "1",
            **settings,
        }
        self._admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)])[TOPIC].result(30)

    def write(self) -> dict[bytes, bytes | None]:
        """Write with every codec, with and without transactions; return the last committed value of each key."""
        last: dict[bytes, bytes | None] = {}
        for codec in CODECS:
            for is_idempotent in (True, False):
                producer = self._producer(codec, **{"enable.idempotence": is_idempotent})
                for _ in range(4):
                    self._send(producer, rows := self._rows(40))
                    last.update(rows)
        for codec in ("none", "lz4"):
            producer = self._producer(codec, **{"transactional.id": f"id-{codec}"})
            producer.init_transactions(30)
            for number in range(8):
                producer.begin_transaction()
                self._send(producer, rows := self._rows(15))
                if number % 2:
                    producer.abort_transaction(30)
                else:
                    producer.commit_transaction(30)
                    last.update(rows)
        last.update(self.fill())
        return last

    def fill(self) -> dict[bytes, bytes | None]:
        """Write a segment's worth, so that all that was written before is closed."""
        producer, last = self._producer("none"), {}
        for _ in range(3):
            self._fillers += 1
            row = (b"filler-%d" % self._fillers, bytes(SEGMENT_BYTES // 2))
            self._send(producer, [row])
            last[row[0]] = row[1]
        return last  # type: ignore[return-value]

    def _rows(self, count: int) -> list[Row]:
        source = self._source
        return [
            (
                b"key-%d" % source.randrange(60),
                None if source.random() < 0.15 else b"value %d" % source.randrange(10**9),
            )
            for _ in range(count)
        ]

    def _producer(self, codec: str, **settings: object) -> Producer:
        chosen = {"bootstrap.servers": self._bootstrap, "compression.type": codec}
        return Producer({**chosen, "linger.ms": 20_000, "log_level": 0, **settings})

    def _send(self, producer: Producer, rows: Iterable[Row]) -> None:
        """Send one batch."""
        for key, value in rows:
            producer.produce(TOPIC, value, key, headers=[("h", key)])
        assert producer.flush(30) == 0

    def configure(self, name: str, value: str) -> None:
        """Change a setting of the topic."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(30)

    def clean(self) -> Content:
        """Let the broker clean all but the active segment, once; return what is left."""
        self.configure("min.cleanable.dirty.ratio", "0.0001")
        until(self.is_clean, 60, "the log is clean")
        self.configure("min.cleanable.dirty.ratio", "1")
        return self.content()

    def is_clean(self) -> bool:
        """Return whether the cleaner came as far as it may."""
        if not self._checkpoint.exists():
            return False
        active = max(int(path.stem) for path in self.partition.glob("*.log"))
        return f"{TOPIC} 0 {active}" in self._checkpoint.read_text().splitlines()

    def content(self) -> Content:
        """Read the files."""
        return read_content(self.partition)


def read_content(partition: Path) -> Content:
    """Return what the segments of a partition hold."""
    batches, records = [], []
    for path in sorted(partition.glob("*.log")):
        data = path.read_bytes()
        for header in walk(data):
            batches.append(
                Batch(
                    header.base_offset,
                    header.last_offset,
                    header.record_count,
                    header.is_control,
                    header.is_transactional,
                    header.has_delete_horizon,
                    header.compression.kafka_name,
                )
            )
            if not header.is_control:
                found = decode_records(data, header)
                records += [(record.offset, record.key, record.value) for record in found]
    return Content(batches, records)
