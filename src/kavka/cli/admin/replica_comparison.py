"""Comparison of the replicas of partitions, batch by batch: pure, over fetched data.

All replicas of a partition are read from the same offset on. Batches are compared in step, up to the first that a
replica lacks or that ends at or above its high watermark: what is there may still be cut. The next round begins
behind the last batch that all replicas have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kavka.client.admin.replica_records import ReplicaRecords
from kavka.ids import TopicPartition
from kavka.wire.records.header import batch_crc, walk_complete

NOTHING = ReplicaRecords(-1, b"")
"""The value for a replica that could not be read."""


class ReplicasDiffer(Exception):
    """Two replicas differ; the text says where and how."""


class Lag(NamedTuple):
    """The partition with the comparison that is furthest behind its high watermark."""

    records: int
    topic_partition: TopicPartition | None
    offset: int


class _Batch(NamedTuple):
    replica: int
    last_offset: int
    written: int
    """The checksum in the header."""
    true: int
    """The checksum of the bytes: they may have rotted on one disk."""


def compare_round(
    fetched: Mapping[TopicPartition, Mapping[int, ReplicaRecords]],
    offsets: dict[TopicPartition, int],
) -> Lag:
    """Compare what all replicas (by broker) returned, move `offsets` on, and return the greatest lag.

    Raise ReplicasDiffer, and CorruptBatch for bytes that are no batches.
    """
    worst = Lag(-1, None, -1)
    for topic_partition, replicas in fetched.items():
        offsets[topic_partition] = _compare_partition(
            topic_partition, replicas, offsets[topic_partition]
        )
        high_watermark = max((found.high_watermark for found in replicas.values()), default=-1)
        lag = high_watermark - offsets[topic_partition]
        if lag > worst.records:
            worst = Lag(lag, topic_partition, offsets[topic_partition])
    return worst


def _compare_partition(
    topic_partition: TopicPartition, replicas: Mapping[int, ReplicaRecords], offset: int
) -> int:
    """Return the offset up to which the replicas are the same."""
    batches = {replica: _batches(replica, found) for replica, found in replicas.items()}
    while True:
        first: _Batch | None = None
        in_all = bool(batches)
        for replica, waiting in batches.items():
            batch = next(waiting, None)
            if batch is None or batch.last_offset >= replicas[replica].high_watermark:
                in_all = False
            elif first is None:
                first = batch
            else:
                _compare(topic_partition, first, batch)
        if not in_all:
            return offset
        assert first is not None  # every replica had a batch
        offset = first.last_offset + 1


def _compare(topic_partition: TopicPartition, first: _Batch, other: _Batch) -> None:
    if first.last_offset != other.last_offset:
        raise ReplicasDiffer(
            f"partition {topic_partition}: replica {first.replica}'s offset {first.last_offset} doesn't match replica "
            f"{other.replica}'s offset {other.last_offset}"
        )
    for ours, theirs in ((first.written, other.written), (first.true, other.true)):
        if ours != theirs:
            raise ReplicasDiffer(
                f"partition {topic_partition} has unmatched checksum at offset {other.last_offset}; "
                f"replica {first.replica}'s checksum {ours}; replica {other.replica}'s checksum {theirs}"
            )


def _batches(replica: int, found: ReplicaRecords) -> Iterator[_Batch]:
    for header in walk_complete(found.records):
        true = batch_crc(found.records, header)
        yield _Batch(replica, header.last_offset, header.crc, true)
