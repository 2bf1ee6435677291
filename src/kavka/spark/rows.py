"""Rows of the source: the schema of Spark's Kafka source, and record batches of Arrow that fit it exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_COLUMNS: Final = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", _TIMESTAMP),
    pa.field("timestampType", pa.int32()),
]
_PLAIN: Final = pa.schema(_COLUMNS)
_WITH_HEADERS: Final = pa.schema(
    [*_COLUMNS, pa.field("headers", pa.list_(pa.field("element", _HEADER)))]
)


def source_schema(include_headers: bool) -> StructType:
    """Return the columns of a read, all nullable as in Spark's own source."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    columns = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if include_headers:
        header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        columns.append(StructField("headers", ArrayType(header)))
    return StructType(columns)


def row_batch(
    decoded: tuple[Any, ...], topic: str, partition: int, end: int, include_headers: bool
) -> pa.RecordBatch:
    """Return records that `kernel.decode` gave as rows, without those at offset `end` and after.

    Their bytes are not copied. As in Spark's source, a record without headers has null in their place.
    """
    count, offsets, timestamps, types = decoded[:4]
    key, value = decoded[4:8], decoded[8:12]
    offset = _fixed(pa.int64(), count, offsets)
    millis = _fixed(pa.int64(), count, timestamps)
    columns = [
        _variable(pa.binary(), count, *key),
        _variable(pa.binary(), count, *value),
        pa.repeat(pa.scalar(topic, pa.string()), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        offset,
        pc.multiply(millis, 1000).cast(_TIMESTAMP),
        _fixed(pa.int8(), count, types).cast(pa.int32()),
    ]
    if include_headers:
        columns.append(_header_lists(count, *decoded[12:]))
    batch = pa.RecordBatch.from_arrays(columns, schema=_WITH_HEADERS if include_headers else _PLAIN)
    if count and offset[count - 1].as_py() >= end:
        batch = batch.slice(0, pc.sum(pc.less(offset, end)).as_py())
    return batch


def _fixed(kind: pa.DataType, count: int, data: bytearray) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def _variable(
    kind: pa.DataType,
    count: int,
    offsets: bytearray,
    data: bytearray,
    validity: bytearray | None,
    nulls: int,
) -> pa.Array:
    bitmap = None if validity is None else pa.py_buffer(validity)
    return pa.Array.from_buffers(
        kind, count, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)], nulls
    )


def _header_lists(
    count: int, list_offsets: bytearray, key_offsets: bytearray, key_data: bytearray, *value: Any
) -> pa.Array:
    """Return the headers column; keys that are no UTF-8 are replaced, as in Java."""
    offsets = _fixed(pa.int32(), count + 1, list_offsets)
    total = offsets[count].as_py()
    keys = _utf8(_variable(pa.binary(), total, key_offsets, key_data, None, 0))
    entries = pa.StructArray.from_arrays(
        [keys, _variable(pa.binary(), total, *value)], fields=list(_HEADER)
    )
    none = pc.equal(pc.subtract(offsets[1:], offsets[:-1]), 0)
    lists = pa.ListArray.from_arrays(offsets, entries, type=_WITH_HEADERS.field("headers").type)
    return pc.if_else(none, pa.scalar(None, lists.type), lists)


def _utf8(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
