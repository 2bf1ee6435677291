"""The sink: batch and stream writers, each record at least once; `exactly_once` has those for exactly once.

A task of Spark that fails is run again and writes its rows again, so a reader may see them twice; that is the
promise of Spark's own Kafka sink too. Within a task the producer is idempotent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from kavka.client.producer import Producer
from kavka.errors import KafkaError
from kavka.spark.errors import ConnectorError, one_sentence
from kavka.spark.sink_options import SinkOptions

if TYPE_CHECKING:
    from kavka.client.producer import RecordRange

_TEXT_OR_BYTES = (StringType, BinaryType)
_COLUMNS = ("key", "value", "headers", "partition", "topic")
DEFAULTS = {"client.id": "kavka-spark-sink", "batch.size": "1000000", "linger.ms": "0"}
RECORD_COLUMNS = ("key", "value", "headers", "partition")


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Refuse rows that cannot be records, as Spark's own sink does. Columns of other names are ignored."""
    columns: dict[str, DataType] = {column.name: column.dataType for column in schema.fields}
    if "value" not in columns:
        raise ConnectorError("The column value is missing: it has the bytes of the record.")
    for name in ("key", "value"):
        _require(columns, name, _TEXT_OR_BYTES, "string or binary")
    _require(columns, "topic", (StringType,), "string")
    _require(columns, "partition", (IntegerType,), "int")
    if "headers" in columns and not _is_headers(columns["headers"]):
        raise ConnectorError("The column headers must be array<struct<key:string,value:binary>>.")
    if options.topic is None and "topic" not in columns:
        raise ConnectorError("No topic for the rows: set the option topic or add a column topic.")


def _require(
    columns: dict[str, DataType], name: str, kinds: tuple[type[DataType], ...], expected: str
) -> None:
    if name in columns and not isinstance(columns[name], kinds):
        raise ConnectorError(
            f"The column {name} must be {expected}, not {columns[name].simpleString()}."
        )


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields: list[StructField] = kind.elementType.fields
    return [(field.name, type(field.dataType)) for field in fields] == [
        ("key", StringType), ("value", BinaryType),
    ]  # fmt: skip


class Written(WriterCommitMessage):  # type: ignore[misc]
    """A task's commit message: the number of records."""

    def __init__(self, records: int) -> None:
        """Count records."""
        self.records = records


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes the rows of a data frame; everything is acknowledged when a task ends, so there is nothing to commit."""

    def __init__(self, options: SinkOptions) -> None:
        """Set checked options; tasks get a copy of this object."""
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task."""
        with one_sentence():
            return Written(write_rows(iterator, self._options))


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """As BatchWriter, for each micro-batch."""

    def __init__(self, options: SinkOptions) -> None:
        """Set checked options; tasks get a copy of this object."""
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task."""
        with one_sentence():
            return Written(write_rows(iterator, self._options))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: the rows are in the log."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what tasks have written stays, and is written again when Spark repeats the batch."""


def write_rows(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> int:
    """Send rows and wait until all are acknowledged; return how many. The next rows are read while the last travel."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_write(batches, options))
    finally:
        loop.close()


async def _write(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> int:
    async with Producer(DEFAULTS | options.client) as producer:
        try:
            return await send_rows(producer, batches, options)
        except BaseException:
            # Spark runs the task again, so nothing is gained by waiting until delivery.timeout.ms for these rows.
            with suppress(KafkaError, OSError):
                await producer.close(timeout_ms=0)
            raise


async def send_rows(
    producer: Producer, batches: Iterator[pa.RecordBatch], options: SinkOptions
) -> int:
    """Send rows by a producer that is open and wait until all are acknowledged; return how many."""
    count = 0
    travelling: deque[asyncio.Task[list[RecordRange]]] = deque()
    try:
        for batch in batches:
            before = len(travelling)
            for topic, rows in _by_topic(batch, options):
                names = [name for name in RECORD_COLUMNS if name in rows.schema.names]
                # Tasks start in the order of their making, so the rows of a topic stay in theirs.
                sending = producer.send_table(topic, rows.select(names))
                travelling.append(asyncio.create_task(sending))
            await asyncio.sleep(0)  # encode and write before Spark is asked for more
            for _ in range(before):
                await travelling[0]
                travelling.popleft()
            count += batch.num_rows
        for task in travelling:
            await task
    except BaseException:
        for task in travelling:
            task.cancel()
        await asyncio.gather(*travelling, return_exceptions=True)
        raise
    return count


def _by_topic(batch: pa.RecordBatch, options: SinkOptions) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Cut rows by topic, in their order. Raise ConnectorError for a row without one."""
    if options.topic is not None:
        yield options.topic, batch
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise ConnectorError(
            "A row has no topic: the column topic is null, and the option topic is not set."
        )
    for topic in pc.unique(topics).to_pylist():
        yield topic, batch.filter(pc.equal(topics, topic))
