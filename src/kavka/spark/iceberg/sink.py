"""Writers of `format("kavka-iceberg")`: the methods that Spark calls, by process.

planning process    streamWriter() or writer(), then the writer is pickled for the tasks: that makes or evolves the
                    table and reads its state
task                write(): Parquet files, complete, in no table yet
committing process  commit(): one snapshot for each table, with the state of the sink; see `kavka.lake.commits`
                    abort(): removes files that will never be committed

The names of files begin with the sink and the batch, by which maintenance knows those that were never committed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from kavka.lake.catalogs import Identifier, open_catalog
from kavka.lake.commits import BatchCommit, RangeReplacer, TableCommitter
from kavka.lake.errors import LakeError, lake_errors
from kavka.lake.file_names import file_prefix
from kavka.lake.offset_ranges import Ranges, merge
from kavka.lake.sink_state import BatchId, state_of
from kavka.lake.table_writer import WriteTarget, WrittenFile, remove_files
from kavka.lake.tables import load_table, prepare_table
from kavka.spark.errors import ConnectorError, one_sentence
from kavka.spark.iceberg.options import LakeOptions
from kavka.spark.iceberg.task import TablePlan, TaskLoader, TaskReport, verdict_for

Messages = Sequence[WriterCommitMessage | None]


class Loaded(WriterCommitMessage):  # type: ignore[misc]
    """The files that a task has written."""

    def __init__(self, report: TaskReport) -> None:
        """Carry it to the driver."""
        self.report = report


class LakeSink:
    """The common part of both writers. Tasks get a copy, with the plan."""

    def __init__(self, options: LakeOptions, columns: pa.Schema, is_stream: bool) -> None:
        """Set checked options and the columns of the rows; open nothing yet."""
        self.options = options
        self._columns = columns
        self._is_stream = is_stream
        self._plan: TablePlan | str | None = None
        self._is_planned = False

    def __getstate__(self) -> dict[str, Any]:
        """Make the plan: a writer is pickled where it goes to tasks, once for each batch, and nowhere else before."""
        if not self._is_planned:
            self._plan = self._planned()
            self._is_planned = True
        return self.__dict__

    def _planned(self) -> TablePlan | str | None:
        """Return the plan for the one table, or why there is none; tables of a template are planned by the tasks."""
        # What is raised while a writer is pickled does not reach the user; what a task raises does.
        try:
            with one_sentence():
                catalog = open_catalog(self.options.catalog)
                fixed = self.options.tables.fixed
                return None if fixed is None else self._plan_of(catalog, fixed)
        except ConnectorError as error:
            return str(error)

    def _plan_of(self, catalog: Catalog, identifier: Identifier) -> TablePlan:
        table = prepare_table(catalog, identifier, self._columns, self.options.table)
        sink = self.options.sink_id
        state = None if sink is None else state_of(table.properties, sink)
        return TablePlan(WriteTarget.of(table), state)

    def run(self, rows: Iterator[pa.RecordBatch], batch: BatchId) -> Loaded:
        """Run the task in which this is called."""
        with one_sentence(), lake_errors():
            if isinstance(self._plan, str):
                raise ConnectorError(self._plan)
            options = self.options
            prefix = file_prefix(options.sink_id, batch, TaskContext.get().partitionId())
            verdict_of = verdict_for(
                batch, options.accepts_other_writes, self._is_stream, options.sink_id is not None
            )
            loader = TaskLoader(options.tables, self._planner(), verdict_of, batch, prefix)
            return Loaded(self._load(loader, rows))

    def _planner(self) -> Any:
        """Return the plan of each table, by its name."""
        if isinstance(self._plan, TablePlan):
            plan = self._plan
            return lambda _: plan
        catalog = open_catalog(self.options.catalog)
        return lambda identifier: self._plan_of(catalog, identifier)

    # Steps: a crash between any two of them must leave what the next run of the batch finds

    def _load(self, loader: TaskLoader, rows: Iterator[pa.RecordBatch]) -> TaskReport:
        return loader.run(rows)

    def _commit_table(
        self, catalog: Catalog, identifier: Identifier, batch_commit: BatchCommit
    ) -> None:
        if self.options.replaced:
            RangeReplacer(catalog, identifier, self.options.replaced).commit(batch_commit)
        else:
            TableCommitter(catalog, identifier).commit(batch_commit)

    def finish(self, messages: Messages) -> None:
        """Commit a batch after all its tasks, table by table; each is committed whole, and not a second time."""
        with one_sentence(), lake_errors():
            reports = _reports(messages)
            assert len(reports) == len(messages), "Spark commits when all tasks are done"
            if not reports:
                return
            catalog = open_catalog(self.options.catalog)
            for identifier in self._committed_tables(reports):
                self._commit_table(catalog, identifier, self._commit_of(identifier, reports))

    def _committed_tables(self, reports: list[TaskReport]) -> list[Identifier]:
        tables = dict.fromkeys(one for report in reports for one in report.parts)
        fixed = self.options.tables.fixed
        if self.options.replaced and fixed is not None:
            tables[fixed] = None  # rows give way even to none
        return list(tables)

    def _commit_of(self, identifier: Identifier, reports: list[TaskReport]) -> BatchCommit:
        parts = [one.parts[identifier] for one in reports if identifier in one.parts]
        ranges: Ranges = {}
        for part in parts:
            merge(ranges, part.ranges)
        return BatchCommit(
            batch=reports[0].batch,
            files=tuple(file for part in parts for file in part.files),
            ranges=ranges,
            sink=self.options.sink_id,
            is_stream=self._is_stream,
            accepts_other_writes=self.options.accepts_other_writes,
            was_skipped=any(part.was_skipped for part in parts),
        )

    def abort(self, messages: Messages) -> None:
        """Remove what tasks have written, if it was not even tried to commit it: then a task's message is missing.

        Otherwise a commit may be accepted at this moment: Spark calls this also when it does not wait for it any more.
        """
        reports = _reports(messages)
        if not reports or len(reports) == len(messages):
            return
        with one_sentence(), lake_errors():
            catalog = open_catalog(self.options.catalog)
            files: dict[Identifier, list[WrittenFile]] = {}
            for report in reports:
                for identifier, part in report.parts.items():
                    files.setdefault(identifier, []).extend(part.files)
            for identifier, written in files.items():
                table = load_table(catalog, identifier)
                remove_files(table.io, [one.path for one in written])


def _reports(messages: Messages) -> list[TaskReport]:
    return [message.report for message in messages if isinstance(message, Loaded)]


class LakeStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes each micro-batch whole and once; a batch is what the checkpoint says: the query's id and a number."""

    def __init__(self, sink: LakeSink) -> None:
        """Set the sink."""
        self.sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Loaded:
        """Write the rows of a task."""
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId")
        number = context.getLocalProperty("streaming.sql.batchId")
        return self.sink.run(iterator, BatchId(query, int(number)))

    def commit(self, messages: Messages, batchId: int) -> None:
        """Commit; everything is in its tables when this returns."""
        self.sink.finish(messages)

    def abort(self, messages: Messages, batchId: int) -> None:
        """Remove what tasks have written, unless it may be committed."""
        self.sink.abort(messages)


class LakeBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a data frame whole or not at all; with `writeId`, not a second time."""

    def __init__(self, sink: LakeSink) -> None:
        """Set the sink."""
        self.sink = sink
        self._batch = BatchId(sink.options.write_id or secrets.token_hex(16), 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Loaded:
        """Write the rows of a task."""
        return self.sink.run(iterator, self._batch)

    def commit(self, messages: Messages) -> None:
        """Commit; everything is in its tables when this returns."""
        self.sink.finish(messages)

    def abort(self, messages: Messages) -> None:
        """Remove what tasks have written, unless it may be committed."""
        self.sink.abort(messages)


def check_columns(columns: pa.Schema, options: LakeOptions) -> None:
    """Refuse rows without the columns that name their table, and a reload without those that name their record."""
    missing = [name for name in options.tables.columns if name not in columns.names]
    if missing:
        raise LakeError(
            f"The option table has {{{missing[0]}}}, and the rows have no column {missing[0]}."
        )
