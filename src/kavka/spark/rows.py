"""Rows of the source: the schema of Spark's Kafka source, and record batches of Arrow that fit it exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from kavka.wire.records.arrow import to_arrow
from kavka.wire.records.columns import Columns

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
    columns: Columns, topic: str, partition: int, include_headers: bool
) -> pa.RecordBatch:
    """Return records as rows; their bytes are not copied.

    As in Spark's source, a record without headers has null in their place.
    """
    batch = to_arrow(columns, topic, partition, headers=include_headers)
    arrays = {name: batch.column(name) for name in batch.schema.names}
    millis = arrays["timestamp"].view(pa.int64())
    arrays["timestamp"] = pc.multiply(millis, 1000).view(_TIMESTAMP)
    if include_headers:
        arrays["headers"] = _none_for_empty(arrays["headers"])
    schema = _WITH_HEADERS if include_headers else _PLAIN
    return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _none_for_empty(lists: pa.ListArray) -> pa.Array:
    kind = _WITH_HEADERS.field("headers").type
    renamed = pa.ListArray.from_arrays(lists.offsets, lists.values.cast(_HEADER), type=kind)
    return pc.if_else(pc.equal(pc.list_value_length(renamed), 0), pa.scalar(None, kind), renamed)
