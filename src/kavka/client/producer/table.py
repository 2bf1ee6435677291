"""Rows of Arrow tables as batches; needs the extra `arrow`. Pure.

Rows are put to their partitions, and each partition's rows are encoded at once, column by column. What the kernel
returns lacks the producer id and the sequences, which are written into it when the batch is drained.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

from crc32c import crc32c

from kavka.client.metadata import TopicMetadata
from kavka.client.producer.batch import ProducerBatch
from kavka.client.producer.partitioner import positive_hash
from kavka.ids import TopicPartition
from kavka.wire.records.arrow import batches_from_arrow
from kavka.wire.records.columns import decode_columns, encode_columns
from kavka.wire.records.compression import Compression
from kavka.wire.records.header import CRC_START, read_header

_PRODUCER = Struct(">qhi")
_PRODUCER_POSITION = 43


class SealedRecords:
    """An encoded batch whose producer is not known yet."""

    __slots__ = ("_batch", "_compression", "_count", "_level")

    def __init__(
        self, batch: bytearray, count: int, compression: Compression, level: int | None
    ) -> None:
        """Keep `count` records that are encoded and, with a codec, compressed."""
        self._batch = batch
        self._count = count
        self._compression = compression
        self._level = level

    def __len__(self) -> int:
        """Return how many records there are."""
        return self._count

    def encode(
        self,
        compression: Compression,
        level: int | None,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
    ) -> bytearray:
        """Return the batch with the producer's fields and a new checksum."""
        batch = bytearray(self._batch)
        _PRODUCER.pack_into(batch, _PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
        crc = crc32c(memoryview(batch)[CRC_START:])
        batch[CRC_START - 4 : CRC_START] = crc.to_bytes(4, "big")
        return batch

    def timestamp(self, index: int) -> int:
        """Return the timestamp of a record."""
        columns = decode_columns(self._batch)
        return int(memoryview(columns.timestamps).cast("B").cast("q")[index])

    def slice(self, start: int, end: int) -> SealedRecords:
        """Return some of the records as a batch of their own."""
        columns = decode_columns(self._batch)
        batch = encode_columns(
            columns, start, end - start, compression=self._compression, level=self._level
        )
        return SealedRecords(batch, end - start, self._compression, self._level)


def batches_of_table(
    table: Any,
    metadata: TopicMetadata,
    partition: int | None,
    sticky: int,
    *,
    batch_bytes: int,
    now_ms: int,
    compression: Compression,
    level: int | None,
) -> Iterator[ProducerBatch]:
    """Yield closed batches for the rows, in their order within each partition.

    A row's partition is `partition`, else its column `partition`, else that of its key, else `sticky`. Raise
    ValueError for columns of other types and for partitions that do not exist.
    """
    for number, rows in _by_partition(table, len(metadata.partitions), partition, sticky):
        at = TopicPartition(metadata.name, number)
        encoded = batches_from_arrow(
            rows, now_ms, max_bytes=batch_bytes, compression=compression, level=level
        )
        for one in encoded:
            records = SealedRecords(one.batch, one.row_count, compression, level)
            size = read_header(one.batch).size
            yield ProducerBatch(at, 0, -1, size, columns=records, is_closed=True)


def _by_partition(
    table: Any, count: int, partition: int | None, sticky: int
) -> Iterator[tuple[int, Any]]:
    """Yield (partition, its rows)."""
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise TypeError(f"not an Arrow table or record batch: {type(table).__name__}")
    told, keys = _filled(table, "partition"), _filled(table, "key")
    if partition is not None or (told is None and keys is None):
        partition = sticky if partition is None else partition
        _check(partition, count)
        yield partition, table
        return
    import pyarrow.compute as pc  # slow to import, and not needed for one partition

    choices = [] if told is None else [told.cast(pa.int64())]
    if keys is not None and (told is None or told.null_count):
        choices.append(_partitions_of_keys(pa, keys, count))
    numbers = pc.coalesce(*choices, pa.scalar(sticky, pa.int64()))
    for number in sorted(pc.unique(numbers).to_pylist()):
        _check(number, count)
        yield number, table.filter(pc.equal(numbers, number))


def _filled(table: Any, name: str) -> Any:
    """Return a column; None when it is missing or has only nulls."""
    if name not in table.schema.names or table.column(name).null_count == table.num_rows:
        return None
    return table.column(name)


def _partitions_of_keys(pa: Any, keys: Any, count: int) -> Any:
    """Hash each different key once."""
    encoded = (
        keys.combine_chunks().dictionary_encode() if keys.num_chunks else keys.dictionary_encode()
    )
    chunks = encoded.chunks if hasattr(encoded, "chunks") else [encoded]
    numbers = []
    for chunk in chunks:
        hashes = []
        for key in chunk.dictionary.to_pylist():
            raw = key.encode() if isinstance(key, str) else bytes(key)
            hashes.append(positive_hash(raw) % count)
        numbers.append(pa.array(hashes, pa.int64()).take(chunk.indices))
    return pa.chunked_array(numbers, pa.int64())


def _check(partition: int, count: int) -> None:
    if not 0 <= partition < count:
        raise ValueError(f"the topic has the partitions 0 to {count - 1}, not {partition}")
