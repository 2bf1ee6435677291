"""Rows that give way to others: the files that have them, and the other rows of those files, written again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    LessThan,
    Or,
)
from pyiceberg.manifest import DataFile

from kavka.ids import TopicPartition
from kavka.lake.errors import LakeError
from kavka.lake.file_reader import read_file
from kavka.lake.offset_ranges import RECORD_COLUMNS
from kavka.lake.table_writer import TableWriter, WriteTarget, WrittenFile
from kavka.lake.tables import display

if TYPE_CHECKING:
    from pyiceberg.table import Table

_PREFIX = "kept"


@dataclass(frozen=True, slots=True)
class Kept:
    """Files that a replaced range takes out of a table, and new files with their other rows."""

    gone: tuple[DataFile, ...]
    """Files that have rows of the range."""
    files: tuple[WrittenFile, ...]
    """The rows of those files that are not of the range."""


def require_record_columns(table: Table) -> None:
    """Raise LakeError when the rows of a table do not say which records they come from."""
    names = set(table.schema().column_names)
    missing = [name for name in RECORD_COLUMNS if name not in names]
    if missing:
        raise LakeError(
            f"The table {display(table.name())} has no column {', '.join(missing)}: keep topic, partition and offset "
            "in the rows, so that they can be counted and replaced."
        )


def kept_rows(table: Table, replaced: Mapping[TopicPartition, tuple[int, int]]) -> Kept:
    """Return the files with rows of these ranges, and write their other rows again."""
    require_record_columns(table)
    writer = TableWriter(WriteTarget.of(table), _PREFIX)
    gone: list[DataFile] = []
    try:
        for task in table.scan(row_filter=in_ranges(replaced)).plan_files():
            masks = [_mask(rows, replaced) for rows in read_file(table, task, RECORD_COLUMNS)]
            if not any(pc.any(mask).as_py() for mask in masks):
                continue
            gone.append(task.file)
            if all(pc.all(mask).as_py() for mask in masks):
                continue
            for rows in read_file(table, task):
                writer.write(rows.filter(pc.invert(_mask(rows, replaced))))
        return Kept(tuple(gone), tuple(writer.close()))
    except BaseException:
        writer.discard()
        raise


def in_ranges(ranges: Mapping[TopicPartition, tuple[int, int]]) -> BooleanExpression:
    """Return the condition for rows of ranges, by which files are chosen."""
    parts: Sequence[BooleanExpression] = [
        And(
            EqualTo("topic", at.topic),
            EqualTo("partition", at.partition),
            GreaterThanOrEqual("offset", start),
            LessThan("offset", end),
        )
        for at, (start, end) in ranges.items()
    ]
    return reduce(Or, parts)


def _mask(rows: pa.RecordBatch, ranges: Mapping[TopicPartition, tuple[int, int]]) -> pa.Array:
    """Return which rows are of the ranges; a row without topic, partition or offset is of none."""
    topic, partition, offset = (rows.column(name) for name in RECORD_COLUMNS)
    mask = pa.array([False] * rows.num_rows, pa.bool_())
    for at, (start, end) in ranges.items():
        own = pc.and_(pc.equal(topic, at.topic), pc.equal(partition, at.partition))
        inside = pc.and_(pc.greater_equal(offset, start), pc.less(offset, end))
        mask = pc.or_(mask, pc.fill_null(pc.and_(own, inside), False))
    return mask
