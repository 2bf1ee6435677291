"""Writers for `deliveryGuarantee=exactly-once`: the methods that Spark calls, by process. See `commit_protocol`.

planning process    streamWriter() or writer(), then the writer is pickled for the tasks: that makes the plan
task                write(): one transaction, left prepared
committing process  commit() or abort(), of a stream's writer that is made again: the plan comes with the messages
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from kavka.spark.errors import ConnectorError, one_sentence
from kavka.spark.exactly_once.commit_protocol import CommitRefused, Done, Plan, decision_of
from kavka.spark.exactly_once.decisions import Batch, SinkNames
from kavka.spark.exactly_once.driver import Driver
from kavka.spark.exactly_once.task_writer import run_task
from kavka.spark.sink_options import ExactlyOnceOptions, SinkOptions


class Prepared(WriterCommitMessage):  # type: ignore[misc]
    """The prepared part of a task."""

    def __init__(self, done: Done) -> None:
        """Carry it to the driver."""
        self.done = done


T = TypeVar("T")

Messages = Sequence[WriterCommitMessage | None]


class ExactlyOnceSink:
    """The common part of both writers. Tasks get a copy, with the plan."""

    def __init__(self, options: SinkOptions) -> None:
        """Plan nothing yet."""
        assert options.exactly_once is not None
        self.options = options
        self._plan: Plan | CommitRefused | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Make the plan: a writer is pickled where it goes to tasks, once for each batch, and nowhere else before."""
        if self._plan is None:
            self._plan = self._planned()
        return self.__dict__

    def _planned(self) -> Plan | CommitRefused:
        # What is raised while a writer is pickled does not reach the user; what a task raises does.
        try:
            with one_sentence():
                return self._drive(
                    lambda driver: driver.plan(self._exactly_once.accepts_other_writes)
                )
        except ConnectorError as error:
            return CommitRefused(str(error))

    def run(self, rows: Iterator[pa.RecordBatch], batch: Batch) -> Prepared:
        """Run the task in which this is called."""
        with one_sentence():
            plan = self._plan
            assert plan is not None, "tasks have a copy that was pickled"
            if isinstance(plan, CommitRefused):
                raise ConnectorError(plan.reason)
            task = TaskContext.get().partitionId()
            return Prepared(run_task(rows, self.options, plan, batch, task))

    def finish(self, messages: Messages) -> None:
        """Decide about a batch after all its tasks."""
        with one_sentence():
            done = _done(messages)
            assert len(done) == len(messages), "Spark commits when all tasks are done"
            decision = decision_of(done)
            if decision is not None:
                plan = done[0].plan
                self._drive(lambda driver: driver.commit(plan, decision))

    def abort(self, messages: Messages) -> None:
        """Abort what was prepared, if it was not even tried to commit it: then a task's message is missing.

        Otherwise the decision may have been made, and may be carried out at this moment: Spark calls this also when
        it does not wait for a commit any more. The next plan finds out.
        """
        done = _done(messages)
        parts = [one.part for one in done if one.part is not None]
        if parts and len(done) < len(messages):
            with one_sentence():
                self._drive(lambda driver: driver.abort(parts))

    def _drive(self, call: Callable[[Driver], Awaitable[T]]) -> T:
        async def work() -> T:
            names = SinkNames(self._exactly_once.sink_id)
            async with Driver(self.options.client, names) as driver:
                return await call(driver)

        return asyncio.run(work())

    @property
    def _exactly_once(self) -> ExactlyOnceOptions:
        assert self.options.exactly_once is not None
        return self.options.exactly_once


def _done(messages: Messages) -> list[Done]:
    return [message.done for message in messages if isinstance(message, Prepared)]


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes each micro-batch whole and once; a batch is what the checkpoint says: the query's id and a number."""

    def __init__(self, options: SinkOptions) -> None:
        """Set checked options."""
        self.sink = ExactlyOnceSink(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Prepared:
        """Write the rows of a task."""
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId")
        number = context.getLocalProperty("streaming.sql.batchId")
        return self.sink.run(iterator, Batch(query, int(number)))

    def commit(self, messages: Messages, batchId: int) -> None:
        """Decide; everything is committed when this returns."""
        self.sink.finish(messages)

    def abort(self, messages: Messages, batchId: int) -> None:
        """Abort what tasks have prepared, unless it may be decided."""
        self.sink.abort(messages)


class ExactlyOnceBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a data frame whole or not at all; with `writeId`, not a second time."""

    def __init__(self, options: SinkOptions) -> None:
        """Set checked options."""
        self.sink = ExactlyOnceSink(options)
        assert options.exactly_once is not None
        self._batch = Batch(options.exactly_once.write_id or secrets.token_hex(16), 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Prepared:
        """Write the rows of a task."""
        return self.sink.run(iterator, self._batch)

    def commit(self, messages: Messages) -> None:
        """Decide; everything is committed when this returns."""
        self.sink.finish(messages)

    def abort(self, messages: Messages) -> None:
        """Abort what tasks have prepared, unless it may be decided."""
        self.sink.abort(messages)
