"""Logs with keys, tombstones and transactions, small enough to be cleaned many times; and what readers see of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kavka.storage.compaction.cleanable_log import Dirtiness, log_dirtiness
from kavka.storage.compaction.cleaning_pass import CleanerLimits, CleaningPass, PassReport
from kavka.storage.log.log import Log
from kavka.wire.records.batch import BatchBuilder, Record, decode_records
from kavka.wire.records.compression import Compression
from kavka.wire.records.control import ControlType, EndMarker, encode_end_marker
from kavka.wire.records.header import BatchHeader, assign, read_header, walk
from support.storage_bench import read_bytes

DAY_MS = 24 * 3600 * 1000
Row = tuple[bytes | None, bytes | None]


@dataclass
class Producer:
    """A producer, with its sequences, and whether its transaction is open."""

    producer_id: int = -1
    epoch: int = 0
    sequence: int = 0
    is_transactional: bool = False


@dataclass
class Written:
    """The appended data: every record, and how each transaction ended."""

    records: dict[int, Record] = field(default_factory=dict)
    owner: dict[int, int] = field(default_factory=dict)
    """Offset of a transactional record -> number of its transaction."""
    outcomes: dict[int, bool] = field(default_factory=dict)
    """Transaction -> whether it was committed; none while it is open."""
    open_of: dict[int, int] = field(default_factory=dict)
    first_offsets: dict[int, int] = field(default_factory=dict)
    count: int = 0

    def committed(self) -> dict[int, Record]:
        """Return the records that readers of committed data see."""
        return {
            offset: record
            for offset, record in self.records.items()
            if offset not in self.owner or self.outcomes.get(self.owner[offset])
        }

    def last_stable_offset(self, end: int) -> int:
        return min([self.first_offsets[number] for number in self.open_of.values()] + [end])


def write(
    log: Log,
    written: Written,
    rows: Iterable[Row],
    now_ms: int,
    producer: Producer | None = None,
    codec: Compression = Compression.NONE,
    leader_epoch: int = 0,
) -> None:
    """Append one batch."""
    producer = producer or Producer()
    builder = BatchBuilder()
    for key, value in rows:
        builder.append(key, value, now_ms, [("h", key)] if value == b"with header" else None)
    start = log.log_end_offset
    has_id = producer.producer_id >= 0
    batch = builder.build(
        codec,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch if has_id else -1,
        base_sequence=producer.sequence if has_id else -1,
        transactional=producer.is_transactional,
        base_offset=start,
        leader_epoch=leader_epoch,
    )
    producer.sequence += len(builder)
    header = read_header(batch)
    log.append(batch, [header], leader_epoch)
    for record in decode_records(batch, header):
        written.records[record.offset] = record
        if producer.is_transactional:
            if producer.producer_id not in written.open_of:
                written.count += 1
                written.open_of[producer.producer_id] = written.count
                written.first_offsets[written.count] = start
            written.owner[record.offset] = written.open_of[producer.producer_id]


def end_transaction(
    log: Log,
    written: Written,
    producer: Producer,
    now_ms: int,
    *,
    commits: bool,
    leader_epoch: int = 0,
) -> None:
    """Append a marker, also where nothing was written."""
    kind = ControlType.COMMIT if commits else ControlType.ABORT
    batch = encode_end_marker(EndMarker(kind, 0), producer.producer_id, producer.epoch, now_ms)
    header = assign(batch, read_header(batch), log.log_end_offset, leader_epoch)
    log.append(batch, [header], leader_epoch)
    number = written.open_of.pop(producer.producer_id, None)
    if number is not None:
        written.outcomes[number] = commits


async def spend_freely(count: int) -> bool:
    return True


async def clean(
    log: Log,
    last_stable_offset: int | None = None,
    *,
    map_bytes: int = 1 << 20,
    block_bytes: int = 700,
) -> PassReport:
    """Do one pass, however clean the log is."""
    stable = log.log_end_offset if last_stable_offset is None else last_stable_offset
    limits = CleanerLimits(map_bytes, 0.9, block_bytes, spend_freely)
    report = await CleaningPass(log, await log_dirtiness(log, stable), limits).run()
    log.cleaner_offset = report.end_offset
    return report


async def dirtiness(log: Log) -> Dirtiness:
    return await log_dirtiness(log, log.log_end_offset)


def batches(log: Log) -> list[tuple[BatchHeader, bytes]]:
    """Return all batches, as a reader gets them."""
    found: list[tuple[BatchHeader, bytes]] = []
    offset = log.log_start_offset
    while data := read_bytes(log, offset, 1 << 30):
        for header in walk(data):
            found.append((header, data[header.position : header.end]))
            offset = header.last_offset + 1
    return found


def records(log: Log, *, committed: bool = False) -> dict[int, Record]:
    """Return the records of data, without aborted ones if `committed`, by the index that brokers answer with."""
    aborted = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    found: dict[int, Record] = {}
    for header, content in batches(log):
        if header.is_control:
            continue
        if (
            committed
            and header.is_transactional
            and any(
                one.producer_id == header.producer_id
                and one.first_offset <= header.base_offset <= one.last_offset
                for one in aborted
            )
        ):
            continue
        for record in decode_records(content, read_header(content)):
            found[record.offset] = record
    return found


def survivors(written: dict[int, Record], end_offset: int) -> dict[int, Record]:
    """Return the last record of each key below `end_offset`, and all records from there on."""
    last: dict[bytes, Record] = {}
    for offset in sorted(written):
        if offset < end_offset and (key := written[offset].key) is not None:
            last[key] = written[offset]
    kept = {record.offset: record for record in last.values()}
    return kept | {offset: record for offset, record in written.items() if offset >= end_offset}
