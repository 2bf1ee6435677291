"""Findings about single records: lost, vanished, doubled, at the wrong place, or never to be seen."""

from __future__ import annotations

from collections.abc import Iterator

from kavka.ids import TopicPartition
from kavka.testing.history.anomalies import (
    AbortedRead,
    Anomaly,
    Duplicate,
    FailedWriteRead,
    InconsistentOffsets,
    LostWrite,
    PrecommittedRead,
    UnwrittenRead,
    VanishedRead,
)
from kavka.testing.history.facts import Facts, Outcome, Read, Write, ended
from kavka.testing.history.operations import Operation, Scan, Type


def lost_writes(facts: Facts) -> Iterator[LostWrite]:
    """Yield acknowledged records that were not read, where a reader was above them or read the whole partition.

    A consumer must have read the partition from its beginning, in polls or in a scan.
    """
    for topic_partition in facts.orders:
        highest = _highest_read(facts, topic_partition)
        for write in facts.acknowledged(topic_partition):
            if any(
                partition == topic_partition
                for partition, _ in facts.places.get(write.send.value, ())
            ):
                continue
            evidence = _evidence(facts, write, highest)
            if evidence is not None:
                yield LostWrite(write, evidence)


def _highest_read(facts: Facts, topic_partition: TopicPartition) -> Read | None:
    offsets = facts.reads.get(topic_partition)
    return next(iter(offsets[max(offsets)].values())) if offsets else None


def _evidence(facts: Facts, write: Write, highest: Read | None) -> Read | Operation | None:
    """Return the operation that must have seen an acknowledged record, if there is one."""
    start, offset = facts.start_of(write.send.partition), write.send.offset
    if offset is not None and offset < start:
        return None  # retention took it
    scan = facts.scans.get(write.send.partition)
    if (
        scan is not None
        and scan.invoked > ended(write.operation)
        and (offset is not None or not start)
    ):
        return scan
    if offset is not None and highest is not None and offset <= highest.record.offset:
        return highest
    return None


def vanished_reads(facts: Facts) -> Iterator[VanishedRead]:
    """Yield records that were read before a scan of the whole partition, and that it does not have."""
    for topic_partition, scan in facts.scans.items():
        assert isinstance(scan.action, Scan)
        remaining = {(record.offset, record.value) for record in scan.action.records}
        for offset, values in sorted(facts.reads.get(topic_partition, {}).items()):
            for value, read in values.items():
                was_before = ended(read.operation) < scan.invoked
                if was_before and offset >= scan.action.start and (offset, value) not in remaining:
                    yield VanishedRead(read, scan)


def duplicates(facts: Facts) -> Iterator[Duplicate]:
    """Yield values that were read at several offsets of a partition."""
    for value, places in facts.places.items():
        if len(places) < 2:
            continue
        for topic_partition in sorted({partition for partition, _ in places}):
            reads = tuple(
                read
                for (partition, _), read in sorted(places.items())
                if partition == topic_partition
            )
            if len(reads) > 1:
                yield Duplicate(facts.writes.get(value), reads)


def inconsistent_offsets(facts: Facts) -> Iterator[InconsistentOffsets]:
    """Yield offsets with two values, and acknowledged offsets with a value that was read elsewhere only."""
    for topic_partition in facts.orders:
        claims: dict[int, dict[str, Read | Write]] = {}
        for offset, reads in facts.reads.get(topic_partition, {}).items():
            claims[offset] = {**reads}
        for write in facts.acknowledged(topic_partition):
            if write.send.offset is not None:
                claims.setdefault(write.send.offset, {}).setdefault(write.send.value, write)
        for offset, claimed in sorted(claims.items()):
            seen = tuple(claimed.values())
            if len(seen) > 1:
                yield InconsistentOffsets(topic_partition, offset, seen)
            elif isinstance(seen[0], Write):
                elsewhere = _reads_elsewhere(facts, topic_partition, seen[0])
                if elsewhere:
                    yield InconsistentOffsets(topic_partition, offset, (seen[0], *elsewhere))


def _reads_elsewhere(facts: Facts, topic_partition: TopicPartition, write: Write) -> list[Read]:
    places = facts.places.get(write.send.value, {})
    return [read for (partition, _), read in places.items() if partition == topic_partition]


def forbidden_reads(facts: Facts) -> Iterator[Anomaly]:
    """Yield reads of unsent values, of failed sends, and of transactions aborted or not yet committed."""
    for read in facts.all_reads():
        record = read.record
        write = facts.writes.get(record.value)
        if write is None or not _may_be_source(write, read):
            yield UnwrittenRead(read, write)
        elif write.operation.outcome is Type.FAIL:
            yield FailedWriteRead(read, write)
        elif write.transaction is not None:
            transaction = write.transaction
            if transaction.outcome is Outcome.FAILED:
                yield AbortedRead(read, transaction)
            elif transaction.commit and ended(read.operation) < transaction.commit.invoked:
                yield PrecommittedRead(read, transaction)


def _may_be_source(write: Write, read: Read) -> bool:
    """Return whether a write went to the partition of a read, and began before the read was over."""
    is_there = write.send.partition == read.record.partition
    return is_there and write.operation.invoked < ended(read.operation)
