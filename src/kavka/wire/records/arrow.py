"""Columns as Arrow data and back; needs the `arrow` extra, which is imported on first use.

The shape is that of Spark's Kafka source: key and value binary, topic, partition, offset, timestamp,
timestampType and, if asked for, headers as a list of (key, value).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kavka.io import Buffer
from kavka.wire.records import kernel
from kavka.wire.records.body import seal
from kavka.wire.records.columns import BytesColumn, Columns
from kavka.wire.records.compression import Compression
from kavka.wire.records.header import HEADER_SIZE

if TYPE_CHECKING:
    import pyarrow

_ROW_OVERHEAD = 32


class ArrowBatch(NamedTuple):
    """A sealed batch and the rows of the table that are in it."""

    batch: bytearray
    first_row: int
    row_count: int


def to_arrow(
    columns: Columns, topic: str, partition: int, *, headers: bool = False
) -> pyarrow.RecordBatch:
    """Return the columns as a record batch; offsets, timestamps, keys, values and headers are not copied.

    A timestamp of -1 (none) stays the millisecond before 1970, as Spark shows it.
    """
    import pyarrow as pa

    count = columns.count
    arrays = {
        "key": _binary(pa, columns.key, count),
        "value": _binary(pa, columns.value, count),
        "topic": pa.repeat(constant(topic, pa.string()), count),
        "partition": pa.repeat(constant(partition, pa.int32()), count),
        "offset": pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(columns.offsets)]),
        "timestamp": pa.Array.from_buffers(
            pa.timestamp("ms", tz="UTC"), count, [None, pa.py_buffer(columns.timestamps)]
        ),
        "timestampType": _timestamp_types(pa, columns),
    }
    if headers:
        arrays["headers"] = _header_lists(pa, columns)
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _timestamp_types(pa: Any, columns: Columns) -> Any:
    """Return them as int32; most often all are the same, which is written faster than it is converted."""
    types = memoryview(columns.timestamp_types).cast("B")[: columns.count].tobytes()
    if types and types.count(types[0]) == len(types):
        return pa.repeat(constant(types[0], pa.int32()), len(types))
    return pa.Array.from_buffers(pa.int8(), len(types), [None, pa.py_buffer(types)]).cast(
        pa.int32()
    )


def constant(value: int | str, kind: Any) -> Any:
    """Return a scalar of type int32, int64 or string.

    `pa.scalar` imports pandas where that is installed, for a third of a second of processor time.
    """
    import pyarrow as pa

    if isinstance(value, str):
        data = value.encode()
        buffers = [None, pa.py_buffer(struct.pack("<ii", 0, len(data))), pa.py_buffer(data)]
    else:
        number = struct.pack("<i" if kind == pa.int32() else "<q", value)
        buffers = [None, pa.py_buffer(number)]
    return pa.Array.from_buffers(kind, 1, buffers)[0]


def batches_from_arrow(
    table: Any,
    now_ms: int,
    *,
    max_bytes: int,
    compression: Compression = Compression.NONE,
    level: int | None = None,
) -> Iterator[ArrowBatch]:
    """Encode a table or record batch as batches of at most `max_bytes` before compression; one row may be more.

    Columns by name: `value` (needed) and `key` are binary, string, their large kinds, dictionaries of these, or
    null; `timestamp` is a timestamp of any unit or int64 milliseconds, and without it, or where it is null, a
    row gets `now_ms`; `headers` is a list of structs `key`, `value`. Other columns are not checked. Raise
    ValueError for other types, with the column's name, and for a header without a key.
    """
    import pyarrow as pa

    chunks = table.to_batches() if isinstance(table, pa.Table) else [table]
    row = 0
    for chunk in chunks:
        for batch in _encode_chunk(pa, chunk, now_ms, max_bytes, compression, level):
            yield ArrowBatch(batch[0], row + batch[1], batch[2])
        row += chunk.num_rows


class _Column(NamedTuple):
    """The buffers of an array of bytes, and where its first row is in them."""

    offsets: Buffer
    data: Buffer
    validity: Buffer | None
    first: int
    width: int

    def at(self, row: int) -> tuple[Buffer, Buffer, Buffer | None, int, int]:
        """Return the kernel's view of the column from a row on."""
        return self.offsets, self.data, self.validity, self.first + row, self.width


class _Lists(NamedTuple):
    """The buffers of an array of header lists."""

    offsets: Buffer
    validity: Buffer | None
    first: int
    width: int
    key: _Column
    value: _Column

    def at(self, row: int) -> Any:
        """Return the kernel's view of the lists from a row on."""
        first = self.first + row
        return self.offsets, self.validity, first, self.width, self.key.at(0), self.value.at(0)


def _encode_chunk(
    pa: Any,
    chunk: Any,
    now_ms: int,
    max_bytes: int,
    compression: Compression,
    level: int | None,
) -> Iterator[tuple[bytearray, int, int]]:
    names = chunk.schema.names
    if "value" not in names:
        raise ValueError("the table has no column 'value'")
    key = _bytes_column(pa, chunk.column("key"), "key") if "key" in names else None
    value = _bytes_column(pa, chunk.column("value"), "value")
    headers = _lists_column(pa, chunk.column("headers")) if "headers" in names else None
    times = None
    if "timestamp" in names:
        times = _timestamps(pa, chunk.column("timestamp"), now_ms)
    first = 0
    while first < chunk.num_rows:
        count = _rows_that_fit(key, value, headers, first, chunk.num_rows, max_bytes)
        stamps = None if times is None else times[first : first + count]
        base = now_ms if stamps is None else stamps[0]
        batch = kernel.encode_columns(
            count,
            None if times is None else (times, first),
            None if key is None else key.at(first),
            None if value is None else value.at(first),
            None if headers is None else headers.at(first),
            base,
            HEADER_SIZE,
        )
        largest = base if stamps is None else max(stamps)
        yield (
            seal(batch, count, base, largest, compression=compression, level=level),
            first,
            count,
        )
        first += count


def _rows_that_fit(
    key: _Column | None,
    value: _Column | None,
    headers: _Lists | None,
    first: int,
    end: int,
    max_bytes: int,
) -> int:
    """Return how many rows from `first` on stay within `max_bytes`; at least 1."""
    measured = [_ends(column) for column in (key, value) if column is not None]
    lists = None if headers is None else _ends(headers)

    def size(row: int) -> int:
        total = (row - first) * _ROW_OVERHEAD
        total += sum(ends[row] - ends[first] for ends in measured)
        if headers is not None and lists is not None:
            low, high = lists[first], lists[row]
            total += 10 * (high - low)
            for column in (headers.key, headers.value):
                ends = _ends(column)
                total += ends[high] - ends[low]
        return total

    fits = bisect_right(range(first + 1, end + 1), max_bytes - HEADER_SIZE, key=size)
    return max(1, fits)


def _ends(column: _Column | _Lists) -> memoryview:
    ends = memoryview(column.offsets).cast("B").cast("q" if column.width == 8 else "i")
    return ends[column.first :]


def _bytes_column(pa: Any, array: Any, name: str) -> _Column | None:
    """Return the buffers of an array of bytes; None for one of type null."""
    kind = array.type
    if pa.types.is_null(kind):
        return None
    if pa.types.is_dictionary(kind):
        return _bytes_column(pa, array.dictionary_decode(), name)
    if pa.types.is_fixed_size_binary(kind):
        return _bytes_column(pa, array.cast(pa.binary()), name)
    if str(kind) in ("binary_view", "string_view"):
        return _bytes_column(pa, array.cast(pa.large_binary()), name)
    is_wide = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if not (is_wide or pa.types.is_binary(kind) or pa.types.is_string(kind)):
        raise ValueError(f"column {name!r} is {kind}, not binary or string")
    validity, offsets, data = array.buffers()
    if offsets is None or offsets.size == 0:
        offsets = bytes(8 if is_wide else 4)
    return _Column(
        memoryview(offsets),
        b"" if data is None else memoryview(data),
        None if validity is None else memoryview(validity),
        array.offset,
        8 if is_wide else 4,
    )


def _lists_column(pa: Any, array: Any) -> _Lists | None:
    """Return the buffers of a column of headers; None for one of type null."""
    kind = array.type
    if pa.types.is_null(kind):
        return None
    if pa.types.is_map(kind):
        array = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        kind = array.type
    is_wide = pa.types.is_large_list(kind)
    if not (is_wide or pa.types.is_list(kind)) or not pa.types.is_struct(kind.value_type):
        raise ValueError(f"column 'headers' is {kind}, not a list of structs of key and value")
    entries = array.values
    if {field.name for field in entries.type} != {"key", "value"}:
        raise ValueError(f"column 'headers' is {kind}, not a list of structs of key and value")
    if entries.null_count:
        raise ValueError("a header without a key")
    key = _bytes_column(pa, entries.field("key"), "headers.key")
    value = _bytes_column(pa, entries.field("value"), "headers.value")
    if key is None and len(entries):
        raise ValueError("a header without a key")
    nothing = _Column(bytes(8 * (len(entries) + 1)), b"", bytes(len(entries) // 8 + 1), 0, 8)
    validity, offsets = array.buffers()[:2]
    width = 8 if is_wide else 4
    if offsets is None or offsets.size == 0:
        offsets = bytes(width)
    return _Lists(
        memoryview(offsets),
        None if validity is None else memoryview(validity),
        array.offset,
        width,
        key or nothing,
        value or nothing,
    )


def _timestamps(pa: Any, array: Any, now_ms: int) -> memoryview:
    """Return a column of times as int64 milliseconds."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("ms", tz=kind.tz), safe=False).view(pa.int64())
    elif pa.types.is_null(kind):
        array = array.cast(pa.int64())
    elif not pa.types.is_int64(kind):
        raise ValueError(f"column 'timestamp' is {kind}, not a timestamp or int64 milliseconds")
    if array.null_count:
        array = array.fill_null(now_ms)
    data = memoryview(array.buffers()[1]).cast("B")
    return data[8 * array.offset : 8 * (array.offset + len(array))].cast("q")


def _binary(pa: Any, column: BytesColumn, count: int, kind: Any = None) -> Any:
    """Wrap a column of bytes."""
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind or pa.binary(), count, buffers, column.null_count)


def _header_lists(pa: Any, columns: Columns) -> Any:
    """Wrap the headers; keys that are no UTF-8 are replaced, because Arrow's strings must be."""
    count = columns.header_count
    keys = _binary(pa, columns.header_key, count, pa.string())
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        raw = (columns.header_key.row(index) for index in range(count))
        keys = pa.array([(name or b"").decode("utf-8", "replace") for name in raw], pa.string())
    entries = pa.StructArray.from_arrays(
        [keys, _binary(pa, columns.header_value, count)], names=["key", "value"]
    )
    kind = pa.list_(entries.type)
    buffers = [None, pa.py_buffer(columns.header_offsets)]
    return pa.Array.from_buffers(kind, columns.count, buffers, 0, 0, [entries])
