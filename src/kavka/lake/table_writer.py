"""Writes rows as the Parquet files of a table, straight from Arrow; a writer needs no catalogue.

    rows ─► columns of the table ─► by partition ─► buffer ─► row groups (sorted) ─► file, closed at its target size

Nothing is part of the table before its files are committed.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec, partition_record_value
from pyiceberg.schema import Schema
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.sorting import NullOrder, SortDirection, SortOrder
from pyiceberg.typedef import Record

from kavka.lake.errors import LakeError
from kavka.lake.tables import TARGET_BYTES

if TYPE_CHECKING:
    from pyiceberg.table import Table

_GROUP_BYTES = 32 << 20
"""Bytes of rows in memory that make a row group."""
_SORT_BYTES = 128 << 20
"""Bytes of rows in memory that are sorted at once, and make a file then."""
BUFFERED_BYTES = 256 << 20
"""Bytes in memory of all partitions together; the largest is written then."""
_OPEN_FILES = 100
"""Maximum number of partitions that are open; the one that was used least lately is closed then."""


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The table of a writer: its place, schema and layout, as sent to tasks."""

    schema: Schema
    spec: PartitionSpec
    order: SortOrder
    location: str
    properties: dict[str, str]
    io_properties: dict[str, str]

    @classmethod
    def of(cls, table: Table) -> WriteTarget:
        """Copy it from a table, without its history and the states of sinks."""
        own = {
            name: value for name, value in table.properties.items() if not name.startswith("kavka.")
        }
        io = {name: str(value) for name, value in table.io.properties.items()}
        return cls(table.schema(), table.spec(), table.sort_order(), table.location(), own, io)

    @property
    def target_bytes(self) -> int:
        """Return the size that files should have."""
        return int(self.properties.get("write.target-file-size-bytes", TARGET_BYTES))

    def io(self) -> FileIO:
        """Return what opens its files."""
        return load_file_io(self.io_properties, self.location)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that is complete and in no table yet; it travels to the driver."""

    path: str
    size: int
    rows: int
    partition: tuple[Any, ...]
    spec_id: int
    sort_order_id: int | None
    statistics: dict[str, Any] = field(repr=False)

    def data_file(self) -> DataFile:
        """Return it as Iceberg's entry of a manifest."""
        entry = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self.path,
            file_format=FileFormat.PARQUET,
            partition=Record(*self.partition),
            file_size_in_bytes=self.size,
            sort_order_id=self.sort_order_id,
            equality_ids=None,
            key_metadata=None,
            **self.statistics,
        )
        entry.spec_id = self.spec_id
        return entry


class TableWriter:
    """Writes rows into files of one table. `close` returns them, `discard` removes them."""

    def __init__(
        self, target: WriteTarget, name_prefix: str, sort_bytes: int = _SORT_BYTES
    ) -> None:
        """`name_prefix` begins the names of files, which are unique."""
        self._target = target
        self._prefix = name_prefix
        self._sort_bytes = sort_bytes
        self._id = uuid.uuid4().hex
        self._count = 0
        self._io = target.io()
        self._columns = schema_to_pyarrow(target.schema)
        self._locations = load_location_provider(target.location, target.properties)
        self._open: OrderedDict[tuple[Any, ...], _PartitionWriter] = OrderedDict()
        self._closed: list[WrittenFile] = []

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Add rows, whose columns are matched by name; missing ones are null. Raise LakeError, OSError."""
        if not rows.num_rows:
            return
        for key, piece in self._by_partition(self._conformed(rows)):
            writer = self._open.get(key)
            if writer is None:
                writer = self._opened(key)
            self._open.move_to_end(key)
            writer.add(piece)
            if writer.is_full:
                self._close(key)
        self._free_memory()

    def close(self) -> list[WrittenFile]:
        """Finish all files and return them."""
        for key in list(self._open):
            self._close(key)
        return self._closed

    @property
    def buffered(self) -> int:
        """Return the bytes of rows in memory."""
        return sum(one.buffered for one in self._open.values())

    def flush_largest(self) -> None:
        """Write what the partition with most rows in memory has."""
        key = max(self._open, key=lambda one: self._open[one].buffered)
        self._open[key].flush()
        if self._open[key].is_full:
            self._close(key)

    def discard(self) -> None:
        """Remove what was written, as far as that is possible now."""
        paths = [one.path for one in self._closed]
        for writer in self._open.values():
            with suppress(OSError, pa.ArrowException):
                writer.abandon()
            paths.append(writer.path)
        self._open.clear()
        self._closed = []
        remove_files(self._io, paths)

    def _opened(self, key: tuple[Any, ...]) -> _PartitionWriter:
        if len(self._open) >= _OPEN_FILES:
            self._close(next(iter(self._open)))
        writer = _PartitionWriter(
            self._target, self._io, self._path(key), key, self._columns, self._sort_bytes
        )
        self._open[key] = writer
        return writer

    def _path(self, key: tuple[Any, ...]) -> str:
        name = f"{self._prefix}-{self._id}-{self._count:05d}.parquet"
        self._count += 1
        if key:
            folder = self._target.spec.partition_to_path(Record(*key), self._target.schema)
            name = f"{folder}/{name}"
        path: str = self._locations.new_data_location(name)
        return path

    def _close(self, key: tuple[Any, ...]) -> None:
        self._closed.append(self._open[key].close())
        del self._open[key]

    def _free_memory(self) -> None:
        while self.buffered > BUFFERED_BYTES:
            self.flush_largest()

    def _conformed(self, rows: pa.RecordBatch | pa.Table) -> pa.Table:
        """Return rows with exactly the columns of the table."""
        given = set(rows.schema.names)
        arrays = []
        for column in self._columns:
            if column.name not in given:
                arrays.append(pa.nulls(rows.num_rows, column.type))
                continue
            array = rows.column(column.name)
            try:
                arrays.append(array if array.type == column.type else array.cast(column.type))
            except pa.ArrowException as error:
                raise LakeError(
                    f"The column {column.name} does not fit the table: {error}"
                ) from error
        return pa.Table.from_arrays(arrays, schema=self._columns)

    def _by_partition(self, rows: pa.Table) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
        """Cut rows by partition, in their order."""
        fields = self._target.spec.fields
        if not fields:
            yield (), rows
            return
        keys = [transformed(self._target.schema, rows, one) for one in fields]
        names = [f"k{number}" for number in range(len(keys))]
        numbers = pa.array(range(rows.num_rows), pa.int64())
        grouped = pa.table([*keys, numbers], names=[*names, "row"]).group_by(
            names, use_threads=False
        )
        groups = grouped.aggregate([("row", "list")])
        indices = groups.column("row_list").combine_chunks()
        values = groups.select(names).to_pylist()
        for number, each in enumerate(values):
            key = tuple(
                None if each[name] is None
                else partition_record_value(one, each[name], self._target.schema)
                for name, one in zip(names, fields, strict=True)
            )  # fmt: skip
            whole = len(values) == 1
            yield key, rows if whole else rows.take(indices[number].values)


def transformed(schema: Schema, rows: pa.Table, by: Any) -> pa.ChunkedArray | pa.Array:
    """Return the values of a partition field or of a sort field: its transform of its column."""
    names = (schema.find_column_name(by.source_id) or "").split(".")
    column = rows.column(names[0])
    if len(names) > 1:
        column = pc.struct_field(column, names[1:])
    kind = schema.find_field(by.source_id).field_type
    return by.transform.pyarrow_transform(kind)(column)


class _PartitionWriter:
    """The open file of one partition."""

    def __init__(
        self,
        target: WriteTarget,
        io: FileIO,
        path: str,
        key: tuple[Any, ...],
        columns: pa.Schema,
        sort_bytes: int,
    ) -> None:
        self.path = path
        self.buffered = 0
        """Bytes of rows in memory."""
        self._target = target
        self._key = key
        self._is_sorted = not target.order.is_unsorted
        self._pieces: list[pa.Table] = []
        self._groups = 0
        goal = target.target_bytes
        self._group_bytes = sort_bytes if self._is_sorted else min(_GROUP_BYTES, max(goal, 1))
        self._stream = io.new_output(path).create(overwrite=True)
        self._writer = pq.ParquetWriter(
            self._stream, columns, store_decimal_as_integer=True, **_parquet(target.properties)
        )

    @property
    def is_full(self) -> bool:
        """Return whether the file has its size; a sorted one has one row group, so that all of it is sorted."""
        if self._is_sorted:
            return self._groups > 0
        # The next row group would make it larger than the target by more than it is below now.
        written: int = self._stream.tell()
        group = written // self._groups if self._groups else 0
        return written + group // 2 >= self._target.target_bytes

    def add(self, rows: pa.Table) -> None:
        self._pieces.append(rows)
        self.buffered += rows.nbytes
        if self.buffered >= self._group_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered as a row group."""
        if not self._pieces:
            return
        rows = pa.concat_tables(self._pieces)
        self._pieces, self.buffered = [], 0
        if self._is_sorted:
            rows = sorted_by(self._target.schema, self._target.order, rows)
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._groups += 1

    def close(self) -> WrittenFile:
        self.flush()
        self._writer.close()
        size = self._stream.tell()
        self._stream.close()
        schema = self._target.schema
        metadata = self._writer.writer.metadata
        statistics = data_file_statistics_from_parquet_metadata(
            metadata,
            compute_statistics_plan(schema, self._target.properties),
            parquet_path_to_id_mapping(schema),
        )
        return WrittenFile(
            self.path,
            size,
            metadata.num_rows,
            self._key,
            self._target.spec.spec_id,
            self._target.order.order_id if self._is_sorted else None,
            statistics.to_serialized_dict(),
        )

    def abandon(self) -> None:
        self._pieces = []
        self._writer.close()
        self._stream.close()


def sorted_by(schema: Schema, order: SortOrder, rows: pa.Table) -> pa.Table:
    """Return rows in the sort order of a table; the order of equal ones is kept."""
    keys: list[Any] = []
    names: list[tuple[str, str]] = []
    for number, sort_field in enumerate(order.fields):
        values = transformed(schema, rows, sort_field)
        nulls_first = sort_field.null_order == NullOrder.NULLS_FIRST
        keys += [pc.cast(pc.is_null(values), pa.int8()), values]
        names.append((f"n{number}", "descending" if nulls_first else "ascending"))
        is_descending = sort_field.direction == SortDirection.DESC
        names.append((f"v{number}", "descending" if is_descending else "ascending"))
    table = pa.table(keys, names=[name for name, _ in names])
    return rows.take(pc.sort_indices(table, sort_keys=names))


def _parquet(properties: dict[str, str]) -> dict[str, Any]:
    """Return settings of the Parquet writer, by the table's properties."""
    codec = properties.get("write.parquet.compression-codec", "zstd").lower()
    level = properties.get("write.parquet.compression-level")
    page = int(properties.get("write.parquet.page-size-bytes", 1 << 20))
    return {
        "compression": "none" if codec == "uncompressed" else codec,
        "compression_level": None if level is None else int(level),
        "data_page_size": page,
    }


def remove_files(io: FileIO, paths: list[str]) -> list[str]:
    """Remove files that no table has, and return those that could not be; maintenance finds them."""
    remaining = []
    for path in paths:
        try:
            io.delete(path)
        except FileNotFoundError:
            continue
        except OSError:
            remaining.append(path)
    return remaining
