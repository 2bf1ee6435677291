"""Frames for flows of pipelines: in the order of their keys, and with columns that Spark Connect need not ask for.

What a flow reads from a table comes in no order: Spark packs the files of a batch into tasks by their size, so the
newest row of a key may be written before an older one. In a topic the order within a key is what counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_RECORD = [StructField("key", BinaryType()), StructField("value", BinaryType())]


def with_schema(frame: DataFrame, schema: StructType) -> DataFrame:
    """Return the frame, of which Spark Connect knows the columns without asking.

    Operators in Python ask for the columns of what they are given, which the functions of pipelines must not
    (ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION); Spark 4.3 has no public way to say them (decision 043).
    """
    frame._cached_schema = schema
    return frame


def in_key_order(records: DataFrame, *order: str) -> DataFrame:
    """Return `key` and `value` of records for a sink, which writes those of a key in the order of columns.

    The columns hold whole numbers, such as a count or the offset; of a time `unix_micros` makes one. Records of one
    micro-batch are ordered, in the memory of the task that has their key; batches follow each other as they do.
    """
    named = [F.col(column).cast("long").alias(f"order_{n}") for n, column in enumerate(order)]
    key, value = (F.col(name).cast("binary").alias(name) for name in ("key", "value"))
    rows = records.select(key, value, *named).repartition("key")
    numbers = [StructField(f"order_{n}", LongType()) for n in range(len(order))]
    with_columns = with_schema(rows, StructType([*_RECORD, *numbers]))
    return with_columns.mapInArrow(_sorted, StructType(_RECORD))


def _sorted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield key and value of all rows of a task, sorted by the other columns."""
    import pyarrow as pa

    rows = list(batches)
    if rows:
        table = pa.Table.from_batches(rows)
        order = [(name, "ascending") for name in table.column_names[2:]]
        yield from table.sort_by(order).select(table.column_names[:2]).to_batches()
