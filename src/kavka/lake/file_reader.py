"""Reads the rows of one file of a table as they are, with the columns of today: to write them again changes nothing.

pyiceberg 0.12 returns an empty list where a list of structs is null (its reader builds lists without their validity),
so files are read here. Columns are found by the ids of their fields, by Iceberg's specification: a renamed column is
found, a new one is null, a widened one is cast. Rows that another engine has deleted are none of this module's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow

from kavka.lake.errors import LakeError
from kavka.lake.tables import display

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table

_ID = b"PARQUET:field_id"
_ROWS = 65_536


def read_file(
    table: Table, task: FileScanTask, names: Collection[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, with all columns of the table or those that are named.

    Raise LakeError for one with rows that were deleted beside it (merge-on-read), OSError.
    """
    path = task.file.file_path
    if task.delete_files:
        raise LakeError(
            f"Rows of a file of {display(table.name())} were deleted by another engine, beside the file: have that "
            f"engine rewrite its files first. {path}"
        )
    fields = [
        field for field in schema_to_pyarrow(table.schema()) if names is None or field.name in names
    ]
    with table.io.new_input(path).open() as stream:
        file = pq.ParquetFile(stream)
        sources = [_source(file.schema_arrow, field) for field in fields]
        columns = [source.name for source in sources if source is not None]
        for batch in file.iter_batches(batch_size=_ROWS, columns=columns):
            arrays = [
                pa.nulls(batch.num_rows, field.type) if source is None
                else projected(batch.column(source.name), source, field)
                for source, field in zip(sources, fields, strict=True)
            ]  # fmt: skip
            yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _id(field: pa.Field) -> bytes | None:
    return None if field.metadata is None else field.metadata.get(_ID)


def _source(fields: pa.Schema | pa.StructType, wanted: pa.Field) -> pa.Field | None:
    """Return the field with the id of another; by the name where a file has no ids."""
    for field in fields:
        own = _id(field)
        if own == _id(wanted) if own is not None else field.name == wanted.name:
            return field
    return None


def projected(array: pa.Array, source: pa.Field, target: pa.Field) -> pa.Array:
    """Return values with the type of a field; what they have is kept, nulls are nulls. Pure."""
    kind = target.type
    if pa.types.is_struct(kind):
        children = []
        for field in kind:
            own = _source(source.type, field)
            if own is None:
                children.append(pa.nulls(len(array), field.type))
            else:
                index = source.type.get_field_index(own.name)
                children.append(projected(array.flatten()[index], own, field))
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=pc.is_null(array))
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return _projected_list(array, source, kind)
    if pa.types.is_map(kind):
        keys = projected(array.keys, source.type.key_field, kind.key_field)
        items = projected(array.items, source.type.item_field, kind.item_field)
        map_array = pa.MapArray.from_arrays(_offsets(array), keys, items)
        return map_array.cast(kind)
    return array if array.type == kind else array.cast(kind)


def _projected_list(array: pa.Array, source: pa.Field, kind: pa.DataType) -> pa.Array:
    values = projected(array.values, source.type.value_field, kind.value_field)
    large = pa.types.is_large_list(kind)
    list_array = (pa.LargeListArray if large else pa.ListArray).from_arrays(
        pc.cast(_offsets(array), pa.int64() if large else pa.int32()), values
    )
    return list_array.cast(kind)


def _offsets(array: pa.Array) -> pa.Array:
    """Return the offsets of lists, null where a list is: Arrow makes null lists of those."""
    own = array.offsets
    nulls = pa.concat_arrays([pc.is_null(array), pa.array([False])])
    return pc.if_else(nulls, pa.scalar(None, own.type), own)
