"""Records as columns: the form in which many records are handed on without a Python object for each.

The buffers are those of Arrow (`pure` says how), so that `arrow` wraps them without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kavka.io import Buffer, TakeMemory
from kavka.values import frozen
from kavka.wire.records import kernel
from kavka.wire.records.body import DECOMPRESSED_LIMIT, body_of, seal
from kavka.wire.records.compression import Compression
from kavka.wire.records.corrupt import BatchTooLarge, CorruptBatch
from kavka.wire.records.header import HEADER_SIZE, BatchHeader, batch_crc, walk_complete


@frozen
class BytesColumn:
    """Nullable bytes: row i is `data[offsets[i]:offsets[i + 1]]` unless its bit in `validity` is 0."""

    offsets: Buffer  # int32, one more than rows
    data: Buffer
    validity: Buffer | None  # None: no row is null
    null_count: int

    def row(self, index: int) -> bytes | None:
        """Return one row."""
        if self.validity is not None and not self.validity[index >> 3] >> (index & 7) & 1:
            return None
        ends = memoryview(self.offsets).cast("B").cast("i")
        return bytes(self.data[ends[index] : ends[index + 1]])


@frozen
class Columns:
    """Records of one partition in the order of their offsets, which may have gaps.

    The headers of record i are rows `header_offsets[i]` to `header_offsets[i + 1]` of the two header columns.
    """

    count: int
    offsets: Buffer  # int64
    timestamps: Buffer  # int64, milliseconds; -1 for none
    timestamp_types: Buffer  # int8: 0 the producer's, 1 the log's
    key: BytesColumn
    value: BytesColumn
    header_offsets: Buffer  # int32, one more than rows
    header_key: BytesColumn
    header_value: BytesColumn
    next_offset: int
    """Offset to read from next: the offset after the last batch seen, also if its records are not visible."""

    @classmethod
    def of(cls, fields: tuple[Any, ...], next_offset: int) -> Columns:
        """Name what `kernel.decode` returns."""
        return cls(
            fields[0],
            fields[1],
            fields[2],
            fields[3],
            BytesColumn(*fields[4:8]),
            BytesColumn(*fields[8:12]),
            fields[12],
            BytesColumn(fields[13], fields[14], None, 0),
            BytesColumn(*fields[15:19]),
            next_offset,
        )

    def offset_at(self, index: int) -> int:
        """Return the offset of a record."""
        return memoryview(self.offsets).cast("B").cast("q")[index]

    @property
    def header_count(self) -> int:
        """Return the number of headers of all records."""
        return memoryview(self.header_offsets).cast("B").cast("i")[self.count]


def decode_columns(
    buffer: Buffer,
    start: int = 0,
    end: int | None = None,
    *,
    from_offset: int = 0,
    skip: Callable[[BatchHeader], bool] | None = None,
    check_crcs: bool = False,
    limit: int = DECOMPRESSED_LIMIT,
) -> Columns:
    """Return the records of all whole batches in `buffer[start:end]` from an offset on.

    A last batch that is cut, as Fetch may return it, is left for the next read. Control batches, and those of which
    `skip` says so (aborted transactions), give no records, but `next_offset` goes past them.
    Raise CorruptBatch, and BatchTooLarge when the bodies come to more than `limit` bytes decompressed.
    """
    chosen = []
    next_offset = from_offset
    for header in walk_complete(buffer, start, end):
        if header.last_offset < from_offset:
            continue
        if check_crcs and batch_crc(buffer, header) != header.crc:
            raise CorruptBatch("a batch that fails its checksum", header.position)
        next_offset = max(next_offset, header.last_offset + 1)
        if not (header.is_control or (skip is not None and skip(header))):
            chosen.append((buffer, header))
    return decode_batches(chosen, next_offset, from_offset=from_offset, limit=limit)


def decode_batches(
    batches: Iterable[tuple[Buffer, BatchHeader]],
    next_offset: int,
    *,
    from_offset: int = 0,
    limit: int = DECOMPRESSED_LIMIT,
    take_body: TakeMemory | None = None,
    take_values: TakeMemory | None = None,
) -> Columns:
    """Return the records of batches, each in its buffer, from an offset on; `next_offset` is the columns'.

    `take_body` gives memory for what is decompressed, which is dropped again; `take_values` for the values of the
    columns, which then hold a view of it.
    Raise CorruptBatch, and BatchTooLarge when the bodies come to more than `limit` bytes decompressed.
    """
    parts: list[tuple[Buffer, int, int, int, int, int, int, int]] = []
    room = min(limit, 0x7FFF_FFFF)
    for buffer, header in batches:
        body, first, last = body_of(buffer, header, room, take_body)
        room -= last - first
        if room < 0:
            raise BatchTooLarge(f"batches of more than {limit} bytes", header.position)
        parts.append(
            (
                body,
                first,
                last,
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                int(header.timestamp_type),
                header.max_timestamp,
            )
        )
    return Columns.of(kernel.decode(parts, from_offset, take_values), next_offset)


def concat(columns: Sequence[Columns]) -> Columns:
    """Return the rows of all in one; they are copied. Raise OverflowError beyond 2 GiB of keys or of values."""
    if len(columns) == 1:
        return columns[0]
    next_offset = columns[-1].next_offset if columns else 0
    return _gather([(one, 0, one.count) for one in columns], next_offset)


def encode_columns(
    columns: Columns,
    first: int = 0,
    count: int | None = None,
    *,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    """Return rows `first` to `first + count` as one batch at offset 0; the columns' offsets are not used.

    Raise ValueError for no rows, and for columns with offsets that do not fit their bytes.
    """
    rows = columns.count - first if count is None else count
    if rows <= 0 or first < 0 or first + rows > columns.count:
        raise ValueError(
            f"rows {first} to {first + rows} were asked for, and the columns have {columns.count}"
        )
    timestamps = memoryview(columns.timestamps).cast("B").cast("q")[first : first + rows]
    batch = encode_rows(columns, first, rows, base_timestamp=timestamps[0])
    return seal(
        batch,
        rows,
        timestamps[0],
        max(timestamps),
        compression=compression,
        level=level,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


def encode_rows(
    columns: Columns, first: int = 0, count: int | None = None, *, base_timestamp: int
) -> bytearray:
    """Return rows as records with offset deltas 0, 1, 2 and so on, behind the bytes of a header that are free."""
    rows = columns.count - first if count is None else count
    headers = None
    if columns.header_count:
        headers = (
            columns.header_offsets,
            None,
            first,
            4,
            _input(columns.header_key, 0),
            _input(columns.header_value, 0),
        )
    return kernel.encode_columns(
        rows,
        (columns.timestamps, first),
        _input(columns.key, first),
        _input(columns.value, first),
        headers,
        base_timestamp,
        HEADER_SIZE,
    )


def _input(column: BytesColumn, first: int) -> tuple[Buffer, Buffer, Buffer | None, int, int]:
    return column.offsets, column.data, column.validity, first, 4


def _gather(spans: list[tuple[Columns, int, int]], next_offset: int) -> Columns:
    """Copy rows (first, count) of several columns into one."""
    header_spans = []
    for one, first, count in spans:
        ends = memoryview(one.header_offsets).cast("B").cast("i")
        header_spans.append((one, ends[first], ends[first + count] - ends[first]))

    def fixed(pick: Callable[[Columns], Buffer], width: int) -> bytes:
        return b"".join(
            memoryview(pick(one)).cast("B")[width * first : width * (first + count)]
            for one, first, count in spans
        )

    def gathered(
        pick: Callable[[Columns], BytesColumn], rows: list[tuple[Columns, int, int]]
    ) -> BytesColumn:
        parts = [(*_input(pick(one), first), count) for one, first, count in rows]
        return BytesColumn(*kernel.gather(parts))

    lists = [(one.header_offsets, None, None, first, 4, count) for one, first, count in spans]
    return Columns(
        sum(count for _, _, count in spans),
        fixed(lambda one: one.offsets, 8),
        fixed(lambda one: one.timestamps, 8),
        fixed(lambda one: one.timestamp_types, 1),
        gathered(lambda one: one.key, spans),
        gathered(lambda one: one.value, spans),
        kernel.gather(lists)[0],
        gathered(lambda one: one.header_key, header_spans),
        gathered(lambda one: one.header_value, header_spans),
        next_offset,
    )
