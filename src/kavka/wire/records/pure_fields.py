"""The fields of records, for the kernel in Python: varints, a record's fields, its headers."""

from __future__ import annotations

from collections.abc import Callable

from kavka.io import Buffer
from kavka.wire.records import corrupt
from kavka.wire.records.corrupt import CorruptBatch

SMALLEST_RECORD = 7


class Fault(Exception):
    """A fault by its number, on the way to the place that knows the position."""


class Cut(Fault):
    """A record that more bytes may complete."""


RawRecord = tuple[int, int, int, int, int, int, int, int, int]
"""end, timestamp delta, offset delta, key at, key length, value at, value length, headers at, header count."""


def each_record(
    body: Buffer, start: int, end: int, count: int, take: Callable[[bytes, RawRecord, int], None]
) -> None:
    """Call `take(data, record, position)` for exactly `count` records that fill the body."""
    data = bytes(memoryview(body)[start:end])
    if count < 0 or count * SMALLEST_RECORD > len(data):
        raise corrupt_batch(corrupt.MISSING, start)
    position = 0
    for _ in range(count):
        if position == len(data):
            raise corrupt_batch(corrupt.MISSING, start + position)
        record = parse_at(data, position, start)
        try:
            take(data, record, position)
        except Fault as fault:
            raise corrupt_batch(fault.args[0], start + position) from None
        position = record[0]
    if position < len(data):
        raise corrupt_batch(corrupt.EXTRA, start + position)


def corrupt_batch(fault: int, position: int) -> CorruptBatch:
    """Return the error of a fault, at a position of the body."""
    return CorruptBatch(corrupt.FAULTS[fault], position)


def wrap(value: int) -> int:
    """Return `value` as 64 bits with a sign."""
    if -0x8000_0000_0000_0000 <= value <= 0x7FFF_FFFF_FFFF_FFFF:
        return value
    return ((value + 0x8000_0000_0000_0000) & 0xFFFF_FFFF_FFFF_FFFF) - 0x8000_0000_0000_0000


def parse_at(data: bytes, position: int, start: int) -> RawRecord:
    """Read a record's fields up to its headers, in a body that begins at `start`. Raise CorruptBatch."""
    try:
        return parse(data, position)
    except Fault as fault:
        raise corrupt_batch(fault.args[0], start + position) from None


def skip_headers(data: bytes, record: RawRecord, position: int, start: int) -> None:
    """Check the headers of a record. Raise CorruptBatch."""
    try:
        each_header(data, record, lambda name, content: None)
    except Fault:
        raise corrupt_batch(corrupt.FIELDS, start + position) from None


def is_whole(data: bytes, position: int, start: int) -> bool:
    """Return whether the record at `position` is whole; a length that can never be right is a fault."""
    for index in range(5):
        if position + index == len(data):
            return False
        if data[position + index] < 0x80:
            length, at = read_varint(data, position, len(data), 5, corrupt.LENGTH)
            return length < 0 or length <= len(data) - at
    raise corrupt_batch(corrupt.LENGTH, start + position)


def parse(data: bytes, position: int) -> RawRecord:
    """Read a record's fields up to its headers."""
    length, at = read_varint(data, position, len(data), 5, corrupt.LENGTH)
    if length < 0 or length > len(data) - at:
        raise Fault(corrupt.LENGTH)
    end = at + length
    delta, at = read_varint(data, at + 1, end, 10, corrupt.FIELDS)
    offset, at = read_varint(data, at, end, 5, corrupt.FIELDS)
    key_length, key_at = read_varint(data, at, end, 5, corrupt.FIELDS)
    at = key_at if key_length < 0 else key_at + key_length
    value_length, value_at = read_varint(data, at, end, 5, corrupt.FIELDS)
    at = value_at if value_length < 0 else value_at + value_length
    header_count, at = read_varint(data, at, end, 5, corrupt.FIELDS)
    if header_count < 0 or 2 * header_count > end - at or (header_count == 0 and at != end):
        raise Fault(corrupt.FIELDS)
    return end, delta, offset, key_at, key_length, value_at, value_length, at, header_count


def parse_unbounded(data: bytes, position: int) -> tuple[RawRecord, bool]:
    """Read a record and its headers with any length; return whether that, or a header without key, is wrong.

    Raise Cut where the bytes end too early.
    """
    length, begin = _unbounded_number(data, position, 5, corrupt.LENGTH)
    if begin == len(data):
        raise Cut(corrupt.FIELDS)
    delta, at = _unbounded_number(data, begin + 1, 10)
    offset, at = _unbounded_number(data, at, 5)
    key_length, key_at, at = _unbounded_bytes(data, at)
    value_length, value_at, at = _unbounded_bytes(data, at)
    header_count, headers_at = _unbounded_number(data, at, 5)
    if header_count < 0:
        raise Fault(corrupt.FIELDS)
    at, misleads = headers_at, False
    for _ in range(header_count):
        name_length, _, at = _unbounded_bytes(data, at)
        misleads = misleads or name_length < 0
        _, _, at = _unbounded_bytes(data, at)
    record = at, delta, offset, key_at, key_length, value_at, value_length, headers_at, header_count
    return record, misleads or at - begin != length


def _unbounded_number(
    data: bytes, at: int, most: int, fault: int = corrupt.FIELDS
) -> tuple[int, int]:
    try:
        return read_varint(data, at, len(data), most, fault)
    except Fault:
        if len(data) - at < most:
            raise Cut(corrupt.FIELDS) from None
        raise


def _unbounded_bytes(data: bytes, at: int) -> tuple[int, int, int]:
    """Return a length, where its bytes begin and where they end; a negative one has none."""
    length, begin = _unbounded_number(data, at, 5)
    end = begin + max(length, 0)
    if end > len(data):
        raise Cut(corrupt.FIELDS)
    return length, begin, end


def read_varint(data: bytes, at: int, end: int, most: int, fault: int) -> tuple[int, int]:
    """Read a zigzag number of at most `most` bytes that lies before `end`; return it and where it ends."""
    if at < end and data[at] < 0x80:  # most numbers have one byte
        value = data[at]
        return (value >> 1) ^ -(value & 1), at + 1
    value = shift = 0
    for index in range(at, min(end, at + most)):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFF_FFFF if most == 5 else 0xFFFF_FFFF_FFFF_FFFF
            return (value >> 1) ^ -(value & 1), index + 1
        shift += 7
    raise Fault(fault)


def each_header(
    data: bytes, record: RawRecord, take: Callable[[bytes, bytes | None], None]
) -> None:
    """Call `take(key, value)` for each header; the last one must end where the record does."""
    end, at = record[0], record[7]
    for _ in range(record[8]):
        length, key_at = read_varint(data, at, end, 5, corrupt.FIELDS)
        if length < 0 or length > end - key_at:
            raise Fault(corrupt.FIELDS)
        value_length, value_at = read_varint(data, key_at + length, end, 5, corrupt.FIELDS)
        if value_length > end - value_at:
            raise Fault(corrupt.FIELDS)
        at = value_at + max(value_length, 0)
        content = None if value_length < 0 else data[value_at:at]
        take(data[key_at : key_at + length], content)
    if at != end:
        raise Fault(corrupt.FIELDS)


def put_varint(output: bytearray, value: int) -> None:
    """Append a zigzag varint."""
    value = ((value << 1) ^ (value >> 63)) & 0xFFFF_FFFF_FFFF_FFFF
    while value > 0x7F:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    output.append(value)


def put_bytes(output: bytearray, content: Buffer | None) -> None:
    """Append a length and the bytes; None is the length -1."""
    if content is None:
        output.append(1)
        return
    flat = memoryview(content)
    put_varint(output, flat.nbytes)
    output += flat
