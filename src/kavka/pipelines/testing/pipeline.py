"""A project under test: topics are fed, its graph runs, tables and topics are looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kavka.errors import KafkaError
from kavka.pipelines.definitions import BadDefinition, Definitions
from kavka.pipelines.errors import is_late_worker, query_failure
from kavka.pipelines.observer import Observer
from kavka.pipelines.project import PipelineError, Project
from kavka.pipelines.run import Refresh, Update, register, require_flows
from kavka.pipelines.session import Session
from kavka.pipelines.testing.driver import SharedDriver
from kavka.pipelines.testing.isolation import (
    Replacements,
    databases,
    isolated_project,
    topics,
)
from kavka.pipelines.testing.records import Record, read_slice, to_record
from kavka.pipelines.testing.rows import sorted_rows
from kavka.pipelines.testing.topics import create_topics, feed, read_records
from kavka.spark.queries.flow_progress import (
    ExpectationCounts,
    FlowProgress,
    ProgressTable,
    unqualified,
)
from kavka.testing.local_cluster import LocalCluster

_ATTEMPTS = 4
_FLOWS_AT_ONCE = "spark.sql.pipelines.execution.maxConcurrentFlows"


class UpdateFailed(Exception):
    """A flow of the pipeline failed, or its graph is wrong; the message is Spark's, in one sentence."""


@dataclass(frozen=True, slots=True)
class Updated:
    """The result of an update."""

    flows: Mapping[str, FlowProgress]
    """Progress by the short name of a flow."""

    def expectations(self, flow: str) -> dict[str, ExpectationCounts]:
        """Return the rows that passed and failed the expectations of a flow, by their names."""
        outcomes = self.flows.get(unqualified(flow))
        if outcomes is None:
            raise PipelineError(
                f"no flow {flow!r} ran in this update; there ran {', '.join(self.flows)}"
            )
        return {
            metric.partition(":")[2]: counts for metric, counts in outcomes.expectations.items()
        }


class Pipeline:
    """A project between a broker of its own and empty tables. Its methods block."""

    def __init__(
        self, project: Project, session: Session, cluster: LocalCluster, directory: Path
    ) -> None:
        """Use a project whose storage is the test's, and an empty folder for other files."""
        self.project = project
        self.spark: Any = session.spark
        """The session of Spark Connect, for what is not offered here."""
        self.bootstrap_servers = cluster.bootstrap_servers
        self.lake = directory / "lake"
        """The warehouse of all lake tables, `format("kavka-iceberg")`."""
        self.lake.mkdir()
        self._session = session
        self._replacements = Replacements(self.bootstrap_servers, self.lake)

    # Topics

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic; without this, topics have one partition when they are fed or named by the project."""
        asyncio.run(create_topics(self.bootstrap_servers, {name: partitions}))

    def feed(self, topic: str, rows: Iterable[Any], *, key: str | None = None) -> int:
        """Write rows into a topic, in order, and return how many.

        A row is a `Record`, bytes, text, None (a tombstone), or anything else, which is written as JSON. `key` names
        the field of a row that is the record's key, too. Raise TypeError, ValueError, KafkaError.
        """
        if isinstance(rows, (str, bytes, Mapping)):
            raise TypeError("feed() wants a list of rows, not a row")
        records = [replace(to_record(row, key), topic=topic) for row in rows]
        return self._feed(records)

    def feed_slice(self, file: Path | str, topic: str | None = None) -> int:
        """Write a slice that `kavka pipelines record` has recorded, with its keys, headers, timestamps, partitions.

        Offsets begin at 0 in each partition. A relative path begins at the project's folder. `topic` takes the place
        of the topics in the file. Raise SliceError, OSError, KafkaError.
        """
        path = self.project.directory / file
        return self._feed(list(read_slice(path, topic)))

    def _feed(self, records: Sequence[Record]) -> int:
        partitions: dict[str, int] = {}
        for record in records:
            min_partitions = (record.partition or 0) + 1
            partitions[record.topic] = max(partitions.get(record.topic, 1), min_partitions)
        asyncio.run(create_topics(self.bootstrap_servers, partitions))
        return asyncio.run(feed(self.bootstrap_servers, records))

    def topic(self, name: str) -> list[Record]:
        """Return the committed records of a topic, by partition and offset. Raise PipelineError when there is none."""
        try:
            return asyncio.run(self._read(name))
        except KafkaError as error:
            raise PipelineError(f"no topic {name!r} to read: {error}") from error

    async def _read(self, name: str) -> list[Record]:
        settings = {"bootstrap.servers": self.bootstrap_servers}
        return [record async for record in read_records(settings, name)]

    # The graph

    def run(
        self,
        *,
        refresh: Sequence[str] = (),
        full_refresh: Sequence[str] = (),
    ) -> Updated:
        """Update the pipeline once, as `kavka pipelines run` does: from its checkpoints on. Raise UpdateFailed.

        Where a process of Python started too slowly for Spark, the update goes on from its checkpoints, with one flow
        at a time.
        """
        table = ProgressTable(self.project.name)
        for attempts_left in reversed(range(_ATTEMPTS)):
            try:
                return self._run(table, Refresh(refresh, full_refresh))
            except UpdateFailed as error:
                if not attempts_left or not is_late_worker(str(error)):
                    raise
                self.spark.conf.set(_FLOWS_AT_ONCE, "1")
                for flow in table:
                    flow.last_error = ""
        raise AssertionError("the last attempt returns or raises")

    def _run(self, table: ProgressTable, refresh: Refresh) -> Updated:
        definitions = Definitions()
        try:
            graph_id = register(
                self._session,
                self.project,
                definitions,
                self._replacements.plan,
                self._replacements.output,
            )
        except BadDefinition as error:
            if error.__cause__ is None or _is_sparks(error.__cause__):
                raise UpdateFailed(str(error)) from error
            raise error.__cause__ from None  # of a file of the project: its own stack says most
        except Exception as error:
            if not _is_sparks(error):
                raise
            raise UpdateFailed(query_failure(str(error))) from error
        require_flows(definitions, [*refresh.refresh, *refresh.full_refresh])
        asyncio.run(create_topics(self.bootstrap_servers, topics(definitions)))
        for database in databases(definitions, self.project.spec.database):
            self.spark.sql(f"CREATE DATABASE IF NOT EXISTS `{database}`")
        return self._update(graph_id, definitions, refresh, table)

    def _update(
        self, graph_id: str, definitions: Definitions, refresh: Refresh, table: ProgressTable
    ) -> Updated:
        observer = Observer(table, definitions, publisher=None)
        observer.listen(self.spark)
        update = Update(self._session, self.project, graph_id, refresh, observer, _Silent())
        try:
            update.run()
        finally:
            observer.close()
        if update.error is not None:
            failed = [
                f"flow {flow.flow} failed: {flow.last_error}" for flow in table if flow.last_error
            ]
            text = "; ".join(failed) or query_failure(str(update.error))
            raise UpdateFailed(text) from update.error
        return Updated({flow.flow: flow for flow in table})

    # Tables

    def table(self, name: str, *columns: str) -> list[dict[str, Any]]:
        """Return the rows of a table or view, sorted by the columns in their order; all columns if none are named.

        Times have their zone. Raise PipelineError when there is no such table.
        """
        frame = self.frame(name)
        missing = [column for column in columns if column not in frame.columns]
        if missing:
            raise PipelineError(
                f"the table {name} has no column {missing[0]!r}; it has {', '.join(frame.columns)}"
            )
        chosen = frame.select(*columns) if columns else frame
        return sorted_rows(chosen.toArrow().to_pylist())

    def frame(self, name: str) -> Any:
        """Return a table or view as a data frame of Spark."""
        database = self.project.spec.database
        full = name if "." in name or not database else f"{database}.{name}"
        if not self.spark.catalog.tableExists(full):
            tables = ", ".join(self._tables()) or "none: has it run?"
            raise PipelineError(f"there is no table {name!r}; there is {tables}")
        return self.spark.read.table(full)

    def _tables(self) -> list[str]:
        return sorted(
            found.name
            for database in self.spark.catalog.listDatabases()
            for found in self.spark.catalog.listTables(database.name)
        )

    def lake_table(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a lake table that a sink of `kavka-iceberg` has written, sorted. Raise LakeError."""
        from kavka.lake.catalogs import open_catalog

        catalog = open_catalog({"warehouse": str(self.lake)})
        return sorted_rows(catalog.load_table(name).scan().to_arrow().to_pylist())


def _is_sparks(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "grpc")


class _Silent:
    """The view of an update in a test."""

    def show(self, flows: Sequence[FlowProgress]) -> None:
        """Ignore progress."""

    def print_message(self, message: str) -> None:
        """Ignore messages."""


@contextmanager
def pipeline_under_test(
    project: Project, driver: SharedDriver, directory: Path
) -> Iterator[Pipeline]:
    """Yield a project with a broker, empty tables and new checkpoints below a folder."""
    with ExitStack() as stack:
        broker = directory / "broker"
        storage = directory / "storage"
        for folder in (broker, storage):
            folder.mkdir(parents=True)
        cluster = stack.enter_context(LocalCluster(broker, brokers=1))
        session = stack.enter_context(driver.session(project))
        yield Pipeline(isolated_project(project, storage), session, cluster, directory)
