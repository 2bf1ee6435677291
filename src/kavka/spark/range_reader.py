"""Reads a range of offsets of one partition as record batches of Arrow, in a task of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kavka.client.range_reader import RangeReader
from kavka.ids import TopicPartition
from kavka.spark.connection import shared
from kavka.spark.errors import ConnectorError
from kavka.spark.offsets import OffsetRange
from kavka.spark.options import SourceOptions
from kavka.spark.rows import row_batch

if TYPE_CHECKING:
    import pyarrow as pa


def read_range(options: SourceOptions, offset_range: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range in order.

    Raise ConnectorError when records of it are gone and `failOnDataLoss` is set, CorruptRecordError for a batch that
    cannot be read, KafkaError, OSError.
    """

    def on_loss(sentence: str) -> None:
        if options.fail_on_data_loss:
            raise ConnectorError(
                f"Records may be lost: {sentence}; set failOnDataLoss to false to go on without them."
            )

    connection = shared(options.client)
    topic_partition = TopicPartition(offset_range.topic, offset_range.partition)
    offsets = range(offset_range.start, offset_range.end)
    reader = RangeReader(connection.cluster, connection.config, topic_partition, offsets, on_loss)
    connection.run(reader.start())
    try:
        while not reader.is_done:
            columns = connection.run(reader.next_columns())
            if columns is not None:
                yield row_batch(columns, *topic_partition, options.include_headers)
    finally:
        reader.cancel()
