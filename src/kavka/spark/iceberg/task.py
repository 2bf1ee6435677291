"""A task of Spark that loads rows into tables: one writer for each table, and a report for the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from kavka.lake.catalogs import Identifier
from kavka.lake.offset_ranges import Ranges, merge, ranges_of
from kavka.lake.sink_state import BatchId, SinkState, Verdict, judge
from kavka.lake.table_writer import BUFFERED_BYTES, TableWriter, WriteTarget, WrittenFile
from kavka.spark.iceberg.table_names import TableNames


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A table as a task needs it: where and how to write, and the state of the sink."""

    target: WriteTarget
    state: SinkState | None


@dataclass(frozen=True, slots=True)
class TablePart:
    """Files of a task for one table, and the ranges of offsets in them."""

    files: tuple[WrittenFile, ...]
    ranges: Ranges
    was_skipped: bool


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A task's message to its driver."""

    batch: BatchId
    rows: int
    parts: Mapping[Identifier, TablePart]


@dataclass
class _Part:
    """A table while rows come; `writer` is None when it has the batch already."""

    writer: TableWriter | None
    ranges: Ranges = field(default_factory=dict)


class TaskLoader:
    """Loads the rows of one task."""

    def __init__(
        self,
        tables: TableNames,
        plan_of: Callable[[Identifier], TablePlan],
        verdict_of: Callable[[SinkState | None], Verdict],
        batch: BatchId,
        prefix: str,
        max_buffered: int = BUFFERED_BYTES,
    ) -> None:
        """`plan_of` is asked once for each table, `verdict_of` whether the batch is to be written to it."""
        self._tables = tables
        self._plan_of = plan_of
        self._verdict_of = verdict_of
        self._batch = batch
        self._prefix = prefix
        self._max_buffered = max_buffered
        self._parts: dict[Identifier, _Part] = {}

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Write rows and return what was written; remove it when that fails. Raise LakeError, OSError.

        Rows are consumed even where nothing is written: operators before the sink keep their state while they are read.
        """
        count = 0
        try:
            for rows in batches:
                count += rows.num_rows
                if rows.num_rows:
                    self._write(rows)
            return TaskReport(self._batch, count, self._closed())
        except BaseException:
            for part in self._parts.values():
                if part.writer is not None:
                    part.writer.discard()
            raise

    def _write(self, rows: pa.RecordBatch) -> None:
        for identifier, piece in self._tables.split(rows):
            part = self._parts.get(identifier)
            if part is None:
                part = self._parts[identifier] = self._opened(identifier)
            merge(part.ranges, ranges_of(piece))
            if part.writer is not None:
                part.writer.write(piece)
        self._free_memory()

    def _free_memory(self) -> None:
        """Flush buffers until all tables together use no more memory than one may."""
        writers = [part.writer for part in self._parts.values() if part.writer is not None]
        while sum(writer.buffered for writer in writers) > self._max_buffered:
            max(writers, key=lambda writer: writer.buffered).flush_largest()

    def _opened(self, identifier: Identifier) -> _Part:
        plan = self._plan_of(identifier)
        if self._verdict_of(plan.state) is Verdict.ALREADY_THERE:
            return _Part(None)
        return _Part(TableWriter(plan.target, self._prefix))

    def _closed(self) -> dict[Identifier, TablePart]:
        return {
            identifier: TablePart(
                () if part.writer is None else tuple(part.writer.close()),
                part.ranges,
                part.writer is None,
            )
            for identifier, part in self._parts.items()
        }


def verdict_for(
    batch: BatchId, accepts_other_writes: bool, is_stream: bool, has_sink: bool
) -> Callable[[SinkState | None], Verdict]:
    """Return what decides about a batch, by the state of a table."""

    def decide(state: SinkState | None) -> Verdict:
        if not has_sink:
            return Verdict.WRITE
        return judge(state, batch, accepts_other_writes, is_stream)

    return decide
