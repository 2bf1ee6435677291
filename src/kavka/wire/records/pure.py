"""The kernel in Python: the specification of `_kernel`, which does the same in C.

A body is `body[start:end]`, the uncompressed records of a batch. Each record is: varint length, attributes,
varlong timestamp delta, varint offset delta, varint key length and key, varint value length and value, varint
header count, and per header varint key length and key, varint value length and value; a negative length is null.
Varints are zigzag; one of a 32-bit field has 5 bytes at most and of a 64-bit field 10. Sums wrap as in Java.

No call trusts a length or a count; all raise CorruptBatch with the text of `corrupt.FAULTS`.
Columns are little-endian, as Arrow wants them: int64, int32 offsets with one more entry than rows, validity bitmaps
with the least significant bit first, or None where nothing is null. Source: protocol guide, "Record".
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from kavka.io import Buffer, TakeMemory
from kavka.wire.records import corrupt
from kavka.wire.records.murmur2 import murmur2 as murmur2
from kavka.wire.records.pure_fields import (
    SMALLEST_RECORD,
    Cut,
    Fault,
    RawRecord,
    corrupt_batch,
    each_header,
    each_record,
    is_whole,
    parse_at,
    parse_unbounded,
    put_bytes,
    put_varint,
    skip_headers,
    wrap,
)
from kavka.wire.records.pure_taking import pack_headers as pack_headers
from kavka.wire.records.pure_taking import take_keyed as take_keyed
from kavka.wire.records.xxhash32 import xxhash32 as xxhash32

NAME = "python"

Part = tuple[Buffer, int, int, int, int, int, int, int]
"""body, start, end, count, base offset, base timestamp, timestamp type, log append time."""
Headers = Sequence[tuple[str | bytes, bytes | None]]
ColumnInput = tuple[Buffer, Buffer, Buffer | None, int, int]
"""offsets, bytes, validity or None, index of the first row, bytes per offset (4 or 8)."""
HeadersInput = tuple[Buffer, Buffer | None, int, int, ColumnInput, ColumnInput]
"""list offsets, validity, index of the first row, bytes per offset; the columns of header keys and values."""

SMALLEST_TAKEN = 65_536
Header = TypeVar("Header", bound=tuple[int, ...])

NO_TIMESTAMP = -1


def sound(
    buffer: bytearray | memoryview,
    header_type: type[Header],
    crc32c: Callable[[Buffer], int],
    max_bytes: int,
    needs_key: bool,
    now_ms: int,
    before_max_ms: int,
    after_max_ms: int,
    base_offset: int,
    leader_epoch: int,
) -> Header | None:
    """Assign the offsets of a produced batch without any fault, and return its header.

    With None, and the batch unchanged, `validate` must check it step by step. The records of a compressed
    batch (see `attributes`) are not checked. The twin always answers None: in Python this step would cost what
    it saves.
    """
    return None


def check(
    body: Buffer,
    start: int,
    end: int,
    first: int,
    count: int,
    last: bool,
    needs_key: bool,
    base_timestamp: int,
    earliest: int,
    latest: int,
    bounded: bool = True,
) -> tuple[int, int, int, int, list[tuple[int, int]]]:
    """Validate records `first` to `count - 1` of a produced batch.

    Return the index after the last whole record, its position, the largest timestamp (-1 without any) with the
    index of the first record that has it, and a list of (index, broken rule), one per record. When `last` is
    false, the body is a chunk: a record that is cut by its end is left for the next call, and so is the count.
    Rules: `needs_key`; a timestamp other than -1 is in `earliest`..`latest`; offset deltas are 0, 1, 2….

    Unless `bounded`, a record ends where its fields do, as Kafka reads compressed ones; a length that says
    otherwise, or a header without key, is a broken rule. What cannot be read on at the end of a chunk is left, too.
    """
    data = bytes(memoryview(body)[start:end])
    if count < 0:
        raise corrupt_batch(corrupt.MISSING, start)
    position, index, largest, largest_index = 0, first, NO_TIMESTAMP, -1
    violations: list[tuple[int, int]] = []
    while index < count and position < len(data):
        if not last and not is_whole(data, position, start):
            break
        try:
            record, misleads = _parse_checked(data, position, start, bounded)
        except Fault as fault:
            if isinstance(fault, Cut) and not last:
                break
            raise corrupt_batch(fault.args[0], start + position) from None
        timestamp = wrap(base_timestamp + record[1])
        if timestamp > largest:
            largest, largest_index = timestamp, index
        rule = 0
        if needs_key and record[4] < 0:
            rule = corrupt.NO_KEY
        elif timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
            rule = corrupt.BAD_TIMESTAMP
        elif record[2] != index:
            rule = corrupt.WRONG_OFFSET
        elif misleads:
            rule = corrupt.MISLEADS
        if rule and len(violations) < corrupt.MAX_VIOLATIONS:
            violations.append((index, rule))
        position = record[0]
        index += 1
    if index == count and position < len(data):
        raise corrupt_batch(corrupt.EXTRA, start + position)
    if last and index < count:
        raise corrupt_batch(corrupt.MISSING, start + position)
    return index, start + position, largest, largest_index, violations


def _parse_checked(data: bytes, position: int, start: int, bounded: bool) -> tuple[RawRecord, bool]:
    """Return a record whose headers are well-formed, and whether its length misleads. Raise CorruptBatch or Fault."""
    if not bounded:
        return parse_unbounded(data, position)
    record = parse_at(data, position, start)
    if record[8]:
        skip_headers(data, record, position, start)
    return record, False


def records(
    body: Buffer,
    start: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    timestamp_type: int,
    append_time: int,
    record_type: type[tuple[Any, ...]],
    prefix: tuple[Any, ...] = (),
) -> list[Any]:
    """Return the records as `record_type`s of (*prefix, offset, timestamp, timestamp type, key, value, headers).

    Headers are a tuple of (str, bytes or None); bytes that are no UTF-8 are replaced, as in Java.
    """
    made = []

    def take(data: bytes, record: RawRecord, position: int) -> None:
        _, delta, offset, key_at, key_length, value_at, value_length, _, header_count = record
        headers: tuple[Any, ...] = ()
        if header_count:
            found: list[Any] = []
            each_header(data, record, lambda key, value: found.append((key, value)))
            headers = tuple((key.decode("utf-8", "replace"), value) for key, value in found)
        made.append(
            tuple.__new__(
                record_type,
                (
                    *prefix,
                    wrap(base_offset + offset),
                    append_time if timestamp_type else wrap(base_timestamp + delta),
                    timestamp_type,
                    None if key_length < 0 else data[key_at : key_at + key_length],
                    None if value_length < 0 else data[value_at : value_at + value_length],
                    headers,
                ),
            )
        )

    each_record(body, start, end, count, take)
    return made


def decode(
    parts: Sequence[Part], from_offset: int, take: TakeMemory | None = None
) -> tuple[Any, ...]:
    """Return the records of several bodies, from an offset on, as the fields of `columns.Columns`.

    Where the bodies come to 64 KiB or more, `take` gives the memory for the values: it returns at least as many bytes
    as it is asked for. Should the values fill less than half of it, they are copied out.
    Raise OverflowError when the bytes of all bodies would not fit 32-bit offsets.
    """
    room = sum(len(memoryview(body)[start:end]) for body, start, end, *_ in parts)
    if room > 0x7FFF_FFFF:
        raise OverflowError("more than 2 GiB of records for one set of columns")
    offsets, timestamps, types = array("q"), array("q"), bytearray()
    key, value, header_key, header_value = _Column(), _Column(), _Column(), _Column()
    header_offsets = array("i", [0])

    def add_header(name: bytes, content: bytes | None) -> None:
        header_key.add(name)
        header_value.add(content)

    for body, start, end, count, base_offset, base_timestamp, kind, append_time in parts:

        def add_row(data: bytes, record: RawRecord, position: int) -> None:
            _, delta, offset_delta, key_at, key_length, value_at, value_length, _, _ = record
            offset = wrap(base_offset + offset_delta)  # noqa: B023
            if offset < from_offset:
                each_header(data, record, lambda name, content: None)
                return
            offsets.append(offset)
            timestamps.append(append_time if kind else wrap(base_timestamp + delta))  # noqa: B023
            types.append(kind)  # noqa: B023
            key.add(None if key_length < 0 else data[key_at : key_at + key_length])
            value.add(None if value_length < 0 else data[value_at : value_at + value_length])
            if record[8]:
                each_header(data, record, add_header)
            header_offsets.append(len(header_key.validity))

        each_record(body, start, end, count, add_row)
    value_offsets, value_data, *value_nulls = value.buffers()
    values: Buffer = value_data
    if take is not None and room >= SMALLEST_TAKEN:
        values = _in_taken(value_data, _taken(take, room))
    return (
        len(offsets),
        bytearray(offsets.tobytes()),
        bytearray(timestamps.tobytes()),
        types,
        *key.buffers(),
        value_offsets,
        values,
        *value_nulls,
        bytearray(header_offsets.tobytes()),
        *header_key.buffers()[:2],
        *header_value.buffers(),
    )


def _taken(take: TakeMemory, size: int) -> memoryview:
    """Return memory of `take`. Raise ValueError when it is less than was asked for."""
    memory = take(size)
    if len(memory) < size:
        raise ValueError("less memory than was asked for")
    return memory


def _in_taken(data: Buffer, memory: memoryview) -> Buffer:
    """Return data in memory that was taken for it, unless they would leave most of that empty."""
    if 2 * len(data) < len(memory):
        return data
    memory[: len(data)] = data
    return memory[: len(data)]


@overload
def encode(
    count: int,
    timestamps: Sequence[int] | None,
    keys: Sequence[bytes | None] | None,
    values: Sequence[bytes | None] | None,
    headers: Sequence[Headers | bytes | None] | None,
    base_timestamp: int,
    reserve: int,
) -> bytearray: ...


@overload
def encode(
    count: int,
    timestamps: Sequence[int] | None,
    keys: Sequence[bytes | None] | None,
    values: Sequence[bytes | None] | None,
    headers: Sequence[Headers | bytes | None] | None,
    base_timestamp: int,
    reserve: int,
    take: TakeMemory,
) -> bytearray | memoryview: ...


def encode(
    count: int,
    timestamps: Sequence[int] | None,
    keys: Sequence[bytes | None] | None,
    values: Sequence[bytes | None] | None,
    headers: Sequence[Headers | bytes | None] | None,
    base_timestamp: int,
    reserve: int,
    take: TakeMemory | None = None,
) -> bytearray | memoryview:
    """Return `count` records with offset deltas 0, 1, 2… after `reserve` bytes of zeros.

    Where they come to 64 KiB or more, `take` gives the memory: it returns at least as many bytes as it is asked for.
    Headers that are bytes come from `pack_headers`, and are not looked at. A list that is None means: every timestamp
    is the base's, every key or value null, no headers.
    Raise ValueError when a list has another length, OverflowError when a record reaches 2 GiB.
    """
    for column in (timestamps, keys, values, headers):
        if column is not None and len(column) != count:
            raise ValueError(f"a column of {len(column)} for {count} records")
    times = None if timestamps is None else array("q", timestamps)
    output = bytearray(reserve)
    for index in range(count):
        record = bytearray(1)
        delta = 0 if times is None else wrap(times[index] - base_timestamp)
        put_varint(record, delta)
        put_varint(record, index)
        put_bytes(record, None if keys is None else keys[index])
        put_bytes(record, None if values is None else values[index])
        entries = () if headers is None else headers[index] or ()
        if isinstance(entries, bytes):
            record += entries
        else:
            _put_headers(record, entries)
        if len(record) > 0x7FFF_FFFF:
            raise OverflowError("a record of more than 2 GiB")
        put_varint(output, len(record))
        output += record
    if take is None or len(output) < SMALLEST_TAKEN:
        return output
    memory = _taken(take, len(output))
    memory[: len(output)] = output
    return memory[: len(output)]


def _put_headers(record: bytearray, entries: Headers) -> None:
    put_varint(record, len(entries))
    for name, content in entries:
        if name is None:
            raise ValueError("a header without a key")
        put_bytes(record, name.encode() if isinstance(name, str) else name)
        put_bytes(record, content)


def encode_columns(
    count: int,
    timestamps: tuple[Buffer, int] | None,
    key: ColumnInput | None,
    value: ColumnInput | None,
    headers: HeadersInput | None,
    base_timestamp: int,
    reserve: int,
) -> bytearray:
    """Do as `encode` from Arrow's buffers; `timestamps` is int64 values and the index of the first row.

    Raise ValueError when a buffer is too short or offsets go backwards or beyond the bytes.
    """
    times = None
    if timestamps is not None:
        times = _fixed(timestamps[0], timestamps[1], count, 8)
    entries = None
    if headers is not None:
        entries = _header_lists(count, headers)
    return encode(
        count,
        times,
        None if key is None else _rows(key, 0, count),
        None if value is None else _rows(value, 0, count),
        entries,
        base_timestamp,
        reserve,
    )


def first_since(
    body: Buffer,
    start: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    timestamp: int,
    from_offset: int,
) -> tuple[int, int] | None:
    """Return timestamp and offset of the first record at or after both bounds, None when there is none.

    Records behind it, and the headers of all, are not checked.
    """
    data = bytes(memoryview(body)[start:end])
    if count < 0 or count * SMALLEST_RECORD > len(data):
        raise corrupt_batch(corrupt.MISSING, start)
    position = 0
    for _ in range(count):
        if position == len(data):
            raise corrupt_batch(corrupt.MISSING, start + position)
        record = parse_at(data, position, start)
        found, offset = wrap(base_timestamp + record[1]), wrap(base_offset + record[2])
        if found >= timestamp and offset >= from_offset:
            return found, offset
        position = record[0]
    return None


def keep(
    body: Buffer, start: int, end: int, count: int, base_timestamp: int, mask: Buffer
) -> tuple[bytearray, int, int]:
    """Return the records with a byte other than 0 in `mask`, their number, and their largest timestamp."""
    if len(mask) != count:
        raise ValueError(f"a mask of {len(mask)} for {count} records")
    kept = bytearray()
    chosen = 0
    largest = NO_TIMESTAMP
    index = 0

    def take(data: bytes, record: RawRecord, position: int) -> None:
        nonlocal index, chosen, largest
        each_header(data, record, lambda name, content: None)
        if mask[index]:
            kept.extend(data[position : record[0]])
            chosen += 1
            largest = max(largest, wrap(base_timestamp + record[1]))
        index += 1

    each_record(body, start, end, count, take)
    return kept, chosen, largest


def keys(
    body: Buffer, start: int, end: int, count: int, base_offset: int
) -> tuple[list[bytes | None], list[int], bytearray]:
    """Return each record's key and offset, and a byte that is 1 where the value is null (a tombstone)."""
    found: list[bytes | None] = []
    offsets: list[int] = []
    tombstones = bytearray()

    def take(data: bytes, record: RawRecord, position: int) -> None:
        _, _, offset, key_at, key_length, _, value_length, _, _ = record
        each_header(data, record, lambda name, content: None)
        found.append(None if key_length < 0 else data[key_at : key_at + key_length])
        offsets.append(wrap(base_offset + offset))
        tombstones.append(value_length < 0)

    each_record(body, start, end, count, take)
    return found, offsets, tombstones


def take_values(
    pairs: Sequence[Any],
    start: int,
    values: list[bytes | None],
    timestamps: list[int],
    timestamp: int,
    free_bytes: int,
    overhead: int,
    largest: int,
) -> tuple[int, int]:
    """Append values of pairs without a key while they fit; return the first index not taken, and the bytes used.

    A pair is a tuple of None and bytes below `largest`; a value takes `overhead` bytes beside its own.
    Raise TypeError where `pairs` is no list or tuple.
    """
    if type(pairs) is not list and type(pairs) is not tuple:
        raise TypeError("pairs come as a list or tuple")
    left = free_bytes
    for index in range(start, len(pairs)):
        pair = pairs[index]
        if type(pair) is not tuple or len(pair) != 2 or pair[0] is not None:
            return index, free_bytes - left
        value = pair[1]
        if type(value) is not bytes or len(value) >= largest or len(value) + overhead > left:
            return index, free_bytes - left
        left -= len(value) + overhead
        values.append(value)
        timestamps.append(timestamp)
    return max(start, len(pairs)), free_bytes - left


def gather(
    parts: Sequence[tuple[Buffer, Buffer | None, Buffer | None, int, int, int]],
) -> tuple[bytearray, bytearray, bytearray | None, int]:
    """Return rows of several columns as one: each part is a `ColumnInput` and a number of rows.

    A part with None as bytes is a column of lists: its offsets are put behind those of the parts before it.
    Raise ValueError as `encode_columns` does, OverflowError beyond 2 GiB.
    """
    column = _Column()
    for offsets_buffer, data, validity, shift, width, count in parts:
        if data is not None:
            for content in _rows((offsets_buffer, data, validity, shift, width), 0, count):
                column.add(content)
            continue
        offsets = _fixed(offsets_buffer, shift, count + 1, width)
        _check_validity(validity, shift + count)
        for index in range(count):
            length = offsets[index + 1] - offsets[index]
            is_valid = _bit(validity, shift + index)
            if is_valid and (offsets[index] < 0 or length < 0):
                raise ValueError("offsets of a column that do not fit its bytes")
            column.add_length(length if is_valid else None)
    return column.buffers()


class _Column:
    """A column of bytes that grows."""

    def __init__(self) -> None:
        """Start empty."""
        self.offsets = array("i", [0])
        self.data = bytearray()
        self.validity = bytearray()
        self.nulls = 0

    def add(self, content: bytes | None) -> None:
        """Append a row."""
        if content is None:
            self.nulls += 1
        else:
            self.data += content
        self.validity.append(content is not None)
        self.offsets.append(self.offsets[-1] + len(content or b""))

    def add_length(self, length: int | None) -> None:
        """Append a row of a list column."""
        self.nulls += length is None
        self.validity.append(length is not None)
        self.offsets.append(self.offsets[-1] + (length or 0))

    def buffers(self) -> tuple[bytearray, bytearray, bytearray | None, int]:
        """Return offsets, bytes, validity bitmap or None, and the number of nulls."""
        bitmap = None
        if self.nulls:
            bitmap = bytearray((len(self.validity) + 7) // 8)
            for index, valid in enumerate(self.validity):
                bitmap[index >> 3] |= valid << (index & 7)
        return bytearray(self.offsets.tobytes()), self.data, bitmap, self.nulls


def _fixed(buffer: Buffer, first: int, count: int, width: int) -> memoryview:
    """Return `count` integers of a buffer from index `first` on."""
    view = memoryview(buffer).cast("B")
    if first < 0 or (first + count) * width > len(view):
        raise ValueError("a buffer is shorter than its column")
    return view[first * width : (first + count) * width].cast("q" if width == 8 else "i")


def _bit(validity: Buffer | None, index: int) -> bool:
    return validity is None or bool(memoryview(validity).cast("B")[index >> 3] >> (index & 7) & 1)


def _check_validity(validity: Buffer | None, rows: int) -> None:
    if validity is not None and memoryview(validity).nbytes * 8 < rows:
        raise ValueError("a buffer is shorter than its column")


def _rows(column: ColumnInput, first: int, count: int) -> list[bytes | None]:
    """Return rows `first` to `first + count` of a column of bytes."""
    offsets_buffer, data_buffer, validity, shift, width = column
    offsets = _fixed(offsets_buffer, shift + first, count + 1, width)
    data = memoryview(data_buffer).cast("B")
    _check_validity(validity, shift + first + count)
    rows: list[bytes | None] = []
    for index in range(count):
        if not _bit(validity, shift + first + index):
            rows.append(None)
            continue
        begin, stop = offsets[index], offsets[index + 1]
        if not 0 <= begin <= stop <= len(data):
            raise ValueError("offsets of a column that do not fit its bytes")
        rows.append(bytes(data[begin:stop]))
    return rows


def _header_lists(count: int, headers: HeadersInput) -> list[Headers]:
    """Return the headers of each record as lists."""
    offsets_buffer, validity, shift, width, key, value = headers
    offsets = _fixed(offsets_buffer, shift, count + 1, width)
    _check_validity(validity, shift + count)
    lists: list[Headers] = []
    for index in range(count):
        if not _bit(validity, shift + index):
            lists.append(())
            continue
        begin, stop = offsets[index], offsets[index + 1]
        if not 0 <= begin <= stop:
            raise ValueError("offsets of a column that do not fit its bytes")
        if begin == stop:
            lists.append(())  # without a check where in the columns this is
            continue
        names = _rows(key, begin, stop - begin)
        if None in names:
            raise ValueError("a header without a key")
        contents = _rows(value, begin, stop - begin)
        lists.append(
            [(name or b"", content) for name, content in zip(names, contents, strict=True)]
        )
    return lists
