"""Rows of Arrow tables as batches; needs the extra `arrow`. Pure.

Rows are put to their partitions, and each partition's rows are encoded at once, column by column. What the kernel
returns lacks the producer id and the sequences, which are written into it when the batch is drained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kavka.client.producer.batch import RECORD_OVERHEAD, ProducerBatch
from kavka.client.producer.encoding import EncodedRecords
from kavka.client.producer.partitioner import positive_hash
from kavka.client.producer.records import too_large
from kavka.ids import TopicPartition
from kavka.wire.records.arrow import batches_from_arrow
from kavka.wire.records.compression import Compression
from kavka.wire.records.header import read_header


class RowPartitions(NamedTuple):
    """The partitioning of rows: `fixed`, else the column `partition`, `choose`, the key, and last `sticky`."""

    partitions: int
    """Of the topic."""
    fixed: int | None
    sticky: int
    uses_keys: bool
    choose: Callable[[bytes | None, bytes | None], int] | None
    """A partitioner of (key, value), called row by row."""


def batches_of_table(
    table: Any,
    topic: str,
    how: RowPartitions,
    *,
    batch_bytes: int,
    max_request_bytes: int,
    now_ms: int,
    compression: Compression,
    level: int | None,
) -> Iterator[ProducerBatch]:
    """Yield closed batches for the rows, in their order within each partition.

    Raise ValueError for columns of other types and for partitions that do not exist; KafkaError MESSAGE_TOO_LARGE
    for a row above `max_request_bytes`, before anything is yielded where key and value alone are too large.
    """
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise TypeError(f"not an Arrow table or record batch: {type(table).__name__}")
    _check_rows(table, max_request_bytes)
    most = min(batch_bytes, max_request_bytes)
    for number, rows in _by_partition(table, how):
        topic_partition = TopicPartition(topic, number)
        encoded = batches_from_arrow(
            rows, now_ms, max_bytes=most, compression=compression, level=level
        )
        for one in encoded:
            size = read_header(one.batch).size
            if one.row_count == 1 and size > max_request_bytes:
                raise too_large(size, max_request_bytes)
            records = EncodedRecords(one.batch, one.row_count, compression, level)
            yield ProducerBatch(topic_partition, 0, -1, size, columns=records, is_closed=True)


def _check_rows(table: Any, max_request_bytes: int) -> None:
    """Refuse a table with a row that is too large; small tables are not looked into."""
    if table.nbytes + RECORD_OVERHEAD <= max_request_bytes:
        return
    import pyarrow as pa
    import pyarrow.compute as pc  # slow to import

    sizes = None
    for name in ("key", "value"):
        column = _filled(table, name)
        if column is not None:
            lengths = pc.fill_null(pc.binary_length(column), 0).cast(pa.int64())
            sizes = lengths if sizes is None else pc.add(sizes, lengths)
    largest = 0 if sizes is None else pc.max(sizes).as_py() or 0
    if largest + RECORD_OVERHEAD > max_request_bytes:
        raise too_large(largest + RECORD_OVERHEAD, max_request_bytes)


def _by_partition(table: Any, how: RowPartitions) -> Iterator[tuple[int, Any]]:
    """Yield (partition, its rows)."""
    given = _filled(table, "partition")
    keys = _filled(table, "key") if how.uses_keys else None
    chosen = how.choose
    fixed = how.fixed
    if fixed is not None or (given is None and keys is None and chosen is None):
        fixed = how.sticky if fixed is None else fixed
        _check(fixed, how.partitions)
        yield fixed, table
        return
    import pyarrow as pa
    import pyarrow.compute as pc  # slow to import, and not needed for one partition

    choices = [] if given is None else [given.cast(pa.int64())]
    if given is None or given.null_count:
        if chosen is not None:
            choices.append(_chosen(pa, table, given, chosen))
        elif keys is not None:
            choices.append(_partitions_of_keys(pa, keys, how.partitions))
    numbers = pc.coalesce(*choices, pa.scalar(how.sticky, pa.int64()))
    for number in sorted(pc.unique(numbers).to_pylist()):
        _check(number, how.partitions)
        yield number, table.filter(pc.equal(numbers, number))


def _filled(table: Any, name: str) -> Any:
    """Return a column; None when it is missing or has only nulls."""
    if name not in table.schema.names or table.column(name).null_count == table.num_rows:
        return None
    return table.column(name)


def _chosen(
    pa: Any, table: Any, given: Any, choose: Callable[[bytes | None, bytes | None], int]
) -> Any:
    """Ask the partitioner about each row that does not say its partition."""
    asked = [True] * table.num_rows if given is None else given.is_null().to_pylist()
    keys, values = _bytes_of(table, "key"), _bytes_of(table, "value")
    numbers = [
        choose(keys[row], values[row]) if is_asked else None for row, is_asked in enumerate(asked)
    ]
    return pa.chunked_array([pa.array(numbers, pa.int64())])


def _bytes_of(table: Any, name: str) -> list[bytes | None]:
    column = _filled(table, name)
    if column is None:
        return [None] * table.num_rows
    return [item.encode() if isinstance(item, str) else item for item in column.to_pylist()]


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
