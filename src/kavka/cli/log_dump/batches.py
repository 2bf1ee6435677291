"""Output of `kavka dump-log` for a `.log` file: a line per batch and, on request, one per record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from kavka.cli.json_lines.declaration import Shape
from kavka.cli.json_lines.lines import Row
from kavka.cli.json_lines.tool_shapes import DUMPED_BATCH, DUMPED_RECORD
from kavka.io import Buffer
from kavka.values import field, mutable
from kavka.wire.records.batch import Record, decode_records
from kavka.wire.records.control import ControlType
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import HEADER_SIZE, BatchHeader, batch_crc, read_header

NO_LIMIT: Final = 2**31 - 1
"""The default of `--max-bytes`."""
UP_TO_MAGIC: Final = 17
"""Length of the part of a batch with its size and magic."""

_SEQUENCES: Final = 2**31
_SIZE: Final = Struct(">i")
_CONTROL_KEY: Final = Struct(">hh")
_MARKER: Final = Struct(">hi")
_VERSIONED_LONG: Final = Struct(">hq")
_VERSIONED_SHORT: Final = Struct(">hh")
_TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")

Parser = Callable[[Record], tuple[str | None, str | None]]
"""Turns a record into the texts of its key and its payload; None for what is not to be printed."""


def _ignore(_position: int) -> None:
    """Do nothing with a position."""


@mutable
class LogDump:
    """Options for printing a log; afterwards `gaps` has the pairs of offsets that do not follow each other."""

    is_deep: bool
    parser: Parser | None
    """None does not print contents."""
    skips_metadata: bool
    max_bytes: int
    gaps: list[tuple[int, int]] = field(factory=list)
    on_batch: Callable[[int], None] = _ignore
    """Is given the position behind each batch, in bytes."""

    def lines(self, buffer: Buffer, name: str) -> Iterator[str]:
        """Yield the lines of the log in `buffer`. Raise CorruptBatch where nothing more can be read."""
        end = min(len(buffer), self.max_bytes)
        position = 0
        last_offset = -1
        for header in whole_batches(buffer, 0, end):
            yield batch_line(buffer, header)
            position = header.end
            self.on_batch(position)
            if self.is_deep:
                for record in decode_records(buffer, header):
                    if last_offset != -1 and record.offset != last_offset + 1:
                        self.gaps.append((last_offset, record.offset))
                    last_offset = record.offset
                    yield self._record_line(header, record)
        if position < end and self.max_bytes == NO_LIMIT:
            yield f"Found {end - position} invalid bytes at the end of {name}"

    def objects(self, buffer: Buffer, name: str) -> Iterator[tuple[Shape, Row]]:
        """Yield batches, and after each its records if they are asked for. Raise CorruptBatch, as `lines`.

        Raise CorruptBatch also for bytes at the end that are no batch, after all others.
        """
        end = min(len(buffer), self.max_bytes)
        position = 0
        for header in whole_batches(buffer, 0, end):
            yield DUMPED_BATCH, {"kind": "batch", "file": name, **_batch_object(buffer, header)}
            position = header.end
            self.on_batch(position)
            for record in decode_records(buffer, header) if self.is_deep else ():
                yield (
                    DUMPED_RECORD,
                    {"kind": "record", "file": name, **self._object(header, record)},
                )
        if position < end and self.max_bytes == NO_LIMIT:
            raise CorruptBatch(
                f"{end - position} bytes at the end of {name} are no batch", position
            )

    def _object(self, header: BatchHeader, record: Record) -> Row:
        key = value = None
        if self.parser is not None and not header.is_control:
            key, value = self.parser(record)
        return {
            "offset": record.offset,
            "timestamp_ms": record.timestamp,
            "timestamp_type": _TIMESTAMP_TYPES[record.timestamp_type],
            "key_size": _size(record.key),
            "value_size": _size(record.value),
            "sequence": _sequence(header, record),
            "header_names": [name for name, _ in record.headers],
            "control": _control_text(record) if header.is_control else None,
            "key": key,
            "value": value,
        }

    def _record_line(self, header: BatchHeader, record: Record) -> str:
        line, before_key = "", "| "
        if not self.skips_metadata:
            names = ",".join(name for name, _ in record.headers)
            line = (
                f"| offset: {record.offset} {_TIMESTAMP_TYPES[record.timestamp_type]}: {record.timestamp} "
                f"keySize: {_size(record.key)} valueSize: {_size(record.value)} "
                f"sequence: {_sequence(header, record)} headerKeys: [{names}]"
            )
            before_key = " "
            if header.is_control:
                line += f" {_control_text(record)}"
        if self.parser is not None and not header.is_control:
            key, payload = self.parser(record)
            line += "" if key is None else f"{before_key}key: {key}"
            line += "" if payload is None else f" payload: {payload}"
        return line


def whole_batches(buffer: Buffer, position: int, end: int) -> Iterator[BatchHeader]:
    """Yield the headers of batches that lie below `end`; stop at one that is cut. Raise CorruptBatch."""
    while position < end - UP_TO_MAGIC:
        size = _SIZE.unpack_from(buffer, position + 8)[0]
        if size < 14:
            raise CorruptBatch(
                f"Found record size {size} smaller than minimum record overhead (14)", position
            )
        if position + 12 + size > end:
            return
        magic = buffer[position + 16]
        if magic in (0, 1):
            raise CorruptBatch(
                f"messages of the old format {magic} cannot be read by this release", position
            )
        header = read_header(buffer, position)
        yield header
        position = header.end


def _batch_object(buffer: Buffer, header: BatchHeader) -> Row:
    return {
        "position": header.position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "partition_leader_epoch": header.partition_leader_epoch,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "delete_horizon_ms": header.base_timestamp if header.has_delete_horizon else None,
        "timestamp_type": _TIMESTAMP_TYPES[header.timestamp_type],
        "max_timestamp_ms": header.max_timestamp,
        "magic": header.magic,
        "compression": header.compression.kafka_name,
        "crc": header.crc,
        "valid": _is_valid(buffer, header),
    }


def _is_valid(buffer: Buffer, header: BatchHeader) -> bool:
    return header.size >= HEADER_SIZE and batch_crc(buffer, header) == header.crc


def batch_line(buffer: Buffer, header: BatchHeader) -> str:
    """Return the line of a batch."""
    horizon = (
        f"OptionalLong[{header.base_timestamp}]"
        if header.has_delete_horizon
        else "OptionalLong.empty"
    )
    is_valid = _is_valid(buffer, header)
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.partition_leader_epoch} isTransactional: {_bool(header.is_transactional)} "
        f"isControl: {_bool(header.is_control)} deleteHorizonMs: {horizon} "
        f"position: {header.position} {_TIMESTAMP_TYPES[header.timestamp_type]}: {header.max_timestamp} "
        f"size: {header.size} magic: {header.magic} compresscodec: {header.compression.kafka_name} "
        f"crc: {header.crc} isvalid: {_bool(is_valid)}"
    )


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _sequence(header: BatchHeader, record: Record) -> int:
    if header.base_sequence < 0:
        return -1
    return (header.base_sequence + record.offset - header.base_offset) % _SEQUENCES


def _control_text(record: Record) -> str:
    """Return what a control record says, in Kafka's words."""
    key, value = record.key or b"", record.value or b""
    if len(key) < _CONTROL_KEY.size:
        raise CorruptBatch(f"the control record at offset {record.offset} has a cut key", 0)
    number = _CONTROL_KEY.unpack_from(key)[1]
    if number in (ControlType.ABORT, ControlType.COMMIT) and len(value) >= _MARKER.size:
        epoch = _MARKER.unpack_from(value)[1]
        return f"endTxnMarker: {ControlType(number).name} coordinatorEpoch: {epoch}"
    if number == ControlType.SNAPSHOT_HEADER and len(value) >= _VERSIONED_LONG.size:
        version, timestamp = _VERSIONED_LONG.unpack_from(value)
        return f'SnapshotHeader {{"version":{version},"lastContainedLogTimestamp":{timestamp}}}'
    if number == ControlType.SNAPSHOT_FOOTER and len(value) >= 2:
        return f'SnapshotFooter {{"version":{int.from_bytes(value[:2], "big", signed=True)}}}'
    if number == ControlType.KRAFT_VERSION and len(value) >= _VERSIONED_SHORT.size:
        version, kraft_version = _VERSIONED_SHORT.unpack_from(value)
        return f'KRaftVersion {{"version":{version},"kRaftVersion":{kraft_version}}}'
    name = ControlType(number).name if 0 <= number < len(ControlType) else "UNKNOWN"
    return f"controlType: {name}({number})"
