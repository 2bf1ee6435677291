"""Output of `kavka dump-log` for the files beside a `.log`, and checks of the indexes against it.

Files are read, never opened for writing: their broker may be running.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

from kavka.cli.log_dump.batches import whole_batches
from kavka.cli.log_dump.mapped_file import mapped, regular_content
from kavka.core.producer_state import ProducerEntry
from kavka.io import Buffer
from kavka.storage.failures import CorruptFile
from kavka.storage.log.producer_snapshot import decode_snapshot
from kavka.values import field, mutable
from kavka.wire.crc32c import crc32c
from kavka.wire.records.batch import decode_records
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import BatchHeader

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_ABORTED_ENTRY: Final = Struct(">hqqqq")
_SNAPSHOT_HEAD: Final = Struct(">hI")
_NO_TIMESTAMP: Final = -1
_LAST_POSITION: Final = 2**31


@mutable
class IndexDump:
    """Options for printing indexes, and the faults found in them, by file."""

    is_sanity_only: bool
    is_verify_only: bool
    max_message_bytes: int
    mismatches: dict[Path, list[tuple[int, int]]] = field(factory=dict)
    time_mismatches: dict[Path, list[tuple[int, int]]] = field(factory=dict)
    out_of_order: dict[Path, list[tuple[int, int]]] = field(factory=dict)
    not_found: dict[Path, list[tuple[int, int]]] = field(factory=dict)

    def offset_index_lines(self, path: Path) -> Iterator[str]:
        """Yield the lines of an `.index`. Raise CorruptFile, CorruptBatch, OSError."""
        base_offset = base_offset_of(path)
        content = _content(path, _OFFSET_ENTRY)
        if not content:
            yield f"{path} is empty."
            return
        if self.is_sanity_only:
            _check_offsets(path, content, base_offset)
            yield f"{path} passed sanity check."
            return
        with mapped(path.with_suffix(".log")) as log:
            for relative, position in _offset_entries(content):
                offset = base_offset + relative
                end = min(len(log), position + self.max_message_bytes)
                found = _batch_at(log, position, end, path).last_offset
                if found != offset:
                    self.mismatches.setdefault(path, []).insert(0, (offset, found))
                if not self.is_verify_only:
                    yield f"offset: {offset} position: {position}"

    def time_index_lines(self, path: Path) -> Iterator[str]:
        """Yield the lines of a `.timeindex`. Raise CorruptFile, CorruptBatch, OSError."""
        base_offset = base_offset_of(path)
        content = _content(path, _TIME_ENTRY)
        if self.is_sanity_only:
            _check_times(path, content, base_offset)
            yield f"{path} passed sanity check."
            return
        positions = list(_offset_entries(_content(path.with_suffix(".index"), _OFFSET_ENTRY)))
        with mapped(path.with_suffix(".log")) as log:
            previous = _NO_TIMESTAMP
            for index, (timestamp, relative) in enumerate(_TIME_ENTRY.iter_unpack(content)):
                if relative == 0 and index > 0:
                    return  # zeros: the file is longer than what is in it
                offset = base_offset + relative
                below = bisect_right(positions, (relative, _LAST_POSITION))
                position = positions[below - 1][1] if below else 0
                self._check_time(path, log, position, offset, timestamp)
                if previous >= timestamp:
                    self.out_of_order.setdefault(path, []).append((timestamp, previous))
                if not self.is_verify_only:
                    yield f"timestamp: {timestamp} offset: {offset}"
                previous = timestamp

    def _check_time(
        self, path: Path, log: Buffer, position: int, offset: int, timestamp: int
    ) -> None:
        batches = whole_batches(log, position, len(log))
        batch = next((batch for batch in batches if batch.last_offset >= offset), None)
        if batch is None:
            self.not_found.setdefault(path, []).append((offset, -1))
        elif batch.last_offset != offset:
            self.not_found.setdefault(path, []).append((offset, batch.last_offset))
        else:
            records = decode_records(log, batch)
            latest = max((record.timestamp for record in records), default=_NO_TIMESTAMP)
            if latest != timestamp:
                self.time_mismatches.setdefault(path, []).append((timestamp, latest))

    def complaints(self) -> Iterator[str]:
        """Yield a line for each fault, for standard error."""
        for path, pairs in self.mismatches.items():
            yield f"Mismatches in :{path.absolute()}"
            for indexed, found in pairs:
                yield f"  Index offset: {indexed}, log offset: {found}"
        for path, pairs in self.time_mismatches.items():
            yield f"Found timestamp mismatch in :{path.absolute()}"
            for indexed, found in pairs:
                yield f"  Index timestamp: {indexed}, log timestamp: {found}"
        for path, pairs in self.out_of_order.items():
            yield f"Found out of order timestamp in :{path.absolute()}"
            for indexed, previous in pairs:
                yield f"  Index timestamp: {indexed}, Previously indexed timestamp: {previous}"
        for pairs in self.not_found.values():
            yield "The following indexed offsets are not found in the log."
            for indexed, found in pairs:
                yield f"Indexed offset: {indexed}, found log offset: {found}"


def base_offset_of(path: Path) -> int:
    """Return the offset that a file is named after. Raise CorruptFile when there is none."""
    name = path.name.split(".")[0]
    if not name.isdigit():
        raise CorruptFile(f"{path} is not named after an offset")
    return int(name)


def producer_snapshot_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a `.snapshot`. Raise CorruptFile, OSError."""
    content = regular_content(path)
    if len(content) >= _SNAPSHOT_HEAD.size:
        stored, computed = _SNAPSHOT_HEAD.unpack_from(content)[1], crc32c(content[6:])
        if stored != computed:
            raise CorruptFile(
                f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
            )
    for entry in decode_snapshot(content):
        yield _producer_line(entry)


def _producer_line(entry: ProducerEntry) -> str:
    first = (
        "OptionalLong.empty"
        if entry.current_txn_first_offset < 0
        else f"OptionalLong[{entry.current_txn_first_offset}]"
    )
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: {first} "
        f"lastTimestamp: {entry.timestamp} "
    )
    if entry.last_sequence < 0 and entry.last_offset < 0:
        return line
    first_sequence = entry.last_sequence - entry.offset_delta
    if first_sequence < 0:
        first_sequence += 2**31
    return line + (
        f"firstSequence: {first_sequence} lastSequence: {entry.last_sequence} "
        f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
    )


def transaction_index_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a `.txnindex`. Raise CorruptFile, OSError."""
    for version, producer_id, first, last, last_stable in _ABORTED_ENTRY.iter_unpack(
        _content(path, _ABORTED_ENTRY)
    ):
        yield (
            f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} "
            f"lastStableOffset: {last_stable}"
        )


def _content(path: Path, entry: Struct) -> bytes:
    """Return the whole entries of a file; what follows them is left out, as Kafka's map of the file does."""
    content = regular_content(path)
    return content[: len(content) - len(content) % entry.size]


def _check_size(path: Path, entry: Struct) -> None:
    size = path.stat().st_size
    if size % entry.size:
        raise CorruptFile(
            f"Index file {path} is corrupt, found {size} bytes which is neither positive nor "
            f"a multiple of {entry.size}"
        )


def _offset_entries(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield the entries up to the zeros with which a file ends that a broker has open or a crash has left."""
    for index, (relative, position) in enumerate(_OFFSET_ENTRY.iter_unpack(content)):
        if relative == 0 and index > 0:
            return
        yield relative, position


def _check_offsets(path: Path, content: bytes, base_offset: int) -> None:
    last, _ = _OFFSET_ENTRY.unpack_from(content, len(content) - _OFFSET_ENTRY.size)
    if last < 0:
        raise CorruptFile(
            f"Corrupt index found, index file ({path}) has non-zero size but the last offset is "
            f"{base_offset + last} which is less than the base offset {base_offset}"
        )
    _check_size(path, _OFFSET_ENTRY)


def _check_times(path: Path, content: bytes, base_offset: int) -> None:
    if not content:
        return
    first, _ = _TIME_ENTRY.unpack_from(content)
    last, relative = _TIME_ENTRY.unpack_from(content, len(content) - _TIME_ENTRY.size)
    if last < first:
        raise CorruptFile(
            f"Corrupt time index found, time index file ({path}) has non-zero size but the last timestamp is "
            f"{last} which is less than the first timestamp {first}"
        )
    if relative < 0:
        raise CorruptFile(
            f"Corrupt time index found, time index file ({path}) has non-zero size but the last offset is "
            f"{base_offset + relative} which is less than the first offset {base_offset}"
        )
    _check_size(path, _TIME_ENTRY)


def _batch_at(log: Buffer, position: int, end: int, path: Path) -> BatchHeader:
    batch = next(whole_batches(log, position, end), None)
    if batch is None:
        raise CorruptBatch(f"{path} points to where no batch is", position)
    return batch
