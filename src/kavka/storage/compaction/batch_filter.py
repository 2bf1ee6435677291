"""Filtering of batches, block by block: bytes in, bytes out, for the pool.

The kernel takes whole runs of plain batches. Those that are compressed, or part of a transaction, are taken one by one:

    data, aborted                    all records go
    data                             what is not its key's last goes; tombstones go after the batch's delete horizon
    marker, transaction seen         stays as it is
    marker, transaction not seen     gets a delete horizon, or goes when that has passed; not one that alone has the
                                     epoch of its producer

A batch that has lost all records goes, unless it is the last of its producer, with its sequence or epoch, the last one
of the pass, with the end of the segment, or the first one of its leader epoch: these stay, empty. Offsets, base and
last, never change. Without the first batch of an epoch a follower that copies the cleaned log takes a later one for it,
and as a leader tells followers that the epoch before went on until there: one that has records of its own at those
offsets, which were never committed, would keep them (Apache Kafka's cleaner has no such rule).
A batch with a tombstone and without delete horizon gets one as base timestamp, with bit 6 of the attributes (KIP-534).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kavka.io import Buffer
from kavka.storage.compaction.cleaned_transactions import CleanedTransactions
from kavka.values import field, mutable
from kavka.wire.records import corrupt, kernel
from kavka.wire.records.body import body_of, reseal
from kavka.wire.records.compression import Compression
from kavka.wire.records.control import ControlType, control_type_of
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    batch_crc,
    read_header,
)

_NO_TIMESTAMP = -1


class Indexed(NamedTuple):
    """The position up to which a block was added to the map."""

    position: int
    last_offset: int
    """The last offset of the last batch that is in the map, -1 without one."""
    is_full: bool
    """True if the map was full at the batch at `position`."""


def index_block(
    block: Buffer,
    offsets: kernel.OffsetMap,
    transactions: CleanedTransactions,
    from_offset: int,
) -> Indexed:
    """Note the keys of the whole batches at the start of `block`. Raise CorruptBatch, also for a wrong CRC."""
    position, last_offset = 0, -1
    while True:
        position, noted, is_full = offsets.index(block, position, from_offset)
        last_offset = max(last_offset, noted)
        header = None if is_full else _whole_batch(block, position)
        if header is None:
            return Indexed(position, last_offset, is_full)
        if not _skips(block, header, transactions):
            body, start, end = body_of(block, header)
            count, base_offset = header.record_count, header.base_offset
            if not offsets.add(body, start, end, count, base_offset, from_offset):
                return Indexed(position, last_offset, True)
        position, last_offset = header.end, header.last_offset


def _skips(block: Buffer, header: BatchHeader, transactions: CleanedTransactions) -> bool:
    """Return whether the batch does not count for the last records of keys."""
    if header.is_control:
        _is_idle_marker(block, header, transactions)
        return True
    if not header.is_transactional:
        return False
    return transactions.is_aborted(header.producer_id, header.last_offset)


def _whole_batch(block: Buffer, position: int) -> BatchHeader | None:
    """Return the header of the batch at `position`, None when the block ends before it does."""
    if len(block) - position < HEADER_SIZE:
        return None
    header = read_header(block, position)
    if header.end > len(block):
        return None
    if batch_crc(block, header) != header.crc:
        raise CorruptBatch(corrupt.CHECKSUM, position)
    return header


def _is_idle_marker(block: Buffer, header: BatchHeader, transactions: CleanedTransactions) -> bool:
    """Note a control batch; return whether it may go. An empty one has lost its marker already."""
    if header.record_count == 0:
        return True
    kind = control_type_of(block, header)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return False
    committed = kind is ControlType.COMMIT
    return transactions.is_marker_idle(header.producer_id, header.last_offset, committed)


@mutable
class CleaningRound:
    """State of a pass when it starts to write."""

    offsets: kernel.OffsetMap
    last_indexed: int
    """Last offset in the map; batches above are kept, except for aborted records."""
    now_ms: int
    horizon_ms: int
    """The delete horizon of tombstones and markers that are met for the first time."""
    last_of_producers: bytes
    """The last offsets of the producers' last batches, int64 in the machine's order, ascending."""
    epochs: Mapping[int, int]
    """Producers without a batch, and their epochs: these are fenced by a marker alone."""
    last_of_round: int
    """The last offset that the pass covers."""
    epoch_starts: bytes
    """The first offsets of leader epochs, int64 in the machine's order, ascending."""
    known_last: frozenset[int] = field(init=False)
    known_starts: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        """Unpack the offsets for single batches."""
        self.known_last = frozenset(memoryview(self.last_of_producers).cast("q"))
        self.known_starts = frozenset(memoryview(self.epoch_starts).cast("q"))

    def keeps_empty(self, header: BatchHeader) -> bool:
        """Return whether the batch must stay although all its records are removed."""
        if header.last_offset == self.last_of_round:
            return True
        if header.producer_id < 0:
            return False
        return header.last_offset in self.known_last

    def shows_leader_epoch(self, marker: BatchHeader) -> bool:
        """Return whether recovery and followers learn the producer's epoch from this marker alone."""
        return self.epochs.get(marker.producer_id) == marker.producer_epoch


def filter_block(
    block: Buffer, work: CleaningRound, transactions: CleanedTransactions
) -> tuple[int, bytearray]:
    """Clean the whole batches at the start of `block`; return where they end, and what stays.

    Raise CorruptBatch, also for a wrong CRC: a batch that was damaged must not get a right one.
    """
    position, kept = 0, bytearray()
    while True:
        position, plain = work.offsets.filter(
            block,
            position,
            work.last_indexed,
            work.now_ms,
            work.horizon_ms,
            work.last_of_producers,
            work.last_of_round,
            work.epoch_starts,
        )
        kept += plain
        header = _whole_batch(block, position)
        if header is None:
            return position, kept
        kept += _filter_batch(block, header, work, transactions)
        position = header.end


def _filter_batch(
    block: Buffer, header: BatchHeader, work: CleaningRound, transactions: CleanedTransactions
) -> Buffer:
    """Return what stays of one batch."""
    is_past = header.has_delete_horizon and header.base_timestamp <= work.now_ms
    if header.is_control:
        is_idle = _is_idle_marker(block, header, transactions)
        if header.record_count == 0 or (
            is_idle and is_past and not work.shows_leader_epoch(header)
        ):
            return _emptied(header, work)
        if is_idle and not header.has_delete_horizon:
            return _rebuilt(block, header, bytes([1]) * header.record_count, work.horizon_ms)
        return _unchanged(block, header)
    if header.is_transactional and transactions.is_aborted(header.producer_id, header.last_offset):
        return _emptied(header, work)
    body, start, end = body_of(block, header)
    mask, kept, tombstones = work.offsets.choose(
        body, start, end, header.record_count, header.base_offset, work.last_indexed, is_past
    )
    if kept == 0:
        return _emptied(header, work)
    horizon_ms = work.horizon_ms if tombstones and not header.has_delete_horizon else None
    if kept == header.record_count and horizon_ms is None:
        return _unchanged(block, header)
    return _rebuilt(block, header, mask, horizon_ms, (body, start, end))


def _unchanged(block: Buffer, header: BatchHeader) -> memoryview:
    return memoryview(block)[header.position : header.end]


def _emptied(header: BatchHeader, work: CleaningRound) -> Buffer:
    """Return nothing, or the batch without its records."""
    bare = header._replace(
        attributes=header.attributes & ~DELETE_HORIZON_BIT, base_timestamp=_NO_TIMESTAMP
    )
    if not work.keeps_empty(header):
        if header.base_offset not in work.known_starts:
            return b""
        if header.is_transactional or header.is_control:
            # Its marker may be gone, or go: for its producer it must say nothing.
            bare = bare._replace(
                attributes=bare.attributes & ~(TRANSACTIONAL_BIT | CONTROL_BIT),
                producer_id=-1,
                producer_epoch=-1,
                base_sequence=-1,
            )
    return reseal(bare, b"", Compression.NONE, record_count=0)


def _rebuilt(
    block: Buffer,
    header: BatchHeader,
    mask: Buffer,
    horizon_ms: int | None,
    opened: tuple[Buffer, int, int] | None = None,
) -> bytearray:
    """Return the batch with the records of the mask, under a delete horizon unless that is None."""
    body, start, end = opened or body_of(block, header)
    records, count, largest = kernel.keep(
        body, start, end, header.record_count, header.base_timestamp, mask
    )
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        largest = header.max_timestamp
    if horizon_ms is not None:
        shift = _wrapped(header.base_timestamp - horizon_ms)
        if shift:
            records = kernel.rebase(records, 0, len(records), count, shift)
        header = header._replace(
            attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=horizon_ms
        )
    return reseal(header, records, header.compression, record_count=count, max_timestamp=largest)


def _wrapped(number: int) -> int:
    """Return `number` as 64 bits with a sign, as the kernel's sums are."""
    return (number + 2**63) % 2**64 - 2**63
