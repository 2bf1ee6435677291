"""One update of a pipeline: Spark's own triggered run, with progress; and its dry run."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from kavka.metrics.server import MetricsServer
from kavka.pipelines.checkpoints import require_no_backfill
from kavka.pipelines.definitions import (
    Definitions,
    Rewrite,
    RewriteOutput,
    located_errors,
    recording_registry,
)
from kavka.pipelines.errors import event_and_error, query_failure
from kavka.pipelines.observer import Observer, first_brokers, flows_of
from kavka.pipelines.project import PipelineError, Project
from kavka.pipelines.session import Session, SparkOptions, open_session
from kavka.pipelines.view import FlowsView
from kavka.spark.queries.flow_progress import DONE, ProgressTable, unqualified
from kavka.spark.queries.metrics import families
from kavka.spark.queries.topic import PROGRESS_TOPIC, StatusPublisher
from kavka.spark.queries.watch import now_ms

_POLL_INTERVAL_S = 0.25


@dataclass(frozen=True, slots=True)
class ProgressOptions:
    """Options for metrics and published progress of a run."""

    metrics_port: int | None = None
    """Port of Prometheus metrics on loopback; 0 takes a free one, None serves none."""
    publishes: bool = True
    """Write progress into the compacted topic."""
    topic: str = PROGRESS_TOPIC
    bootstrap: str = ""
    """Brokers of that topic; by default those of the first source or sink."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """The selection of an update; without one everything is computed, from the checkpoints on."""

    refresh: Sequence[str] = ()
    full_refresh: Sequence[str] = ()
    """Tables that are emptied and computed from the beginning."""
    full_refresh_all: bool = False


def register(
    session: Session,
    project: Project,
    definitions: Definitions,
    rewrite: Rewrite | None = None,
    rewrite_output: RewriteOutput | None = None,
) -> str:
    """Load the project's files into a new graph of the session and return the graph's id.

    Raise BadDefinition for what is raised in the files, and what Spark raises.
    """
    from pyspark.pipelines.cli import register_definitions
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph

    spark = session.spark
    graph_id: str = create_dataflow_graph(
        spark,
        default_catalog=project.spec.catalog,
        default_database=project.spec.database,
        sql_conf=project.spec.configuration,
    )
    directory = project.directory.resolve()
    registry = recording_registry(spark, graph_id, directory, definitions, rewrite, rewrite_output)
    with (
        contextlib.redirect_stdout(io.StringIO()),  # Spark prints each file that it loads
        located_errors(directory),
    ):
        register_definitions(project.spec_path, registry, project.spec, spark, graph_id)
    return graph_id


def update(
    session: Session, project: Project, graph_id: str, refresh: Refresh, *, dry: bool
) -> Iterator[str]:
    """Run an update and yield Spark's events as text. Raise what Spark raises when the update fails."""
    from pyspark.pipelines.spark_connect_pipeline import start_run

    results = start_run(
        session.spark,
        graph_id,
        full_refresh=list(refresh.full_refresh),
        full_refresh_all=refresh.full_refresh_all,
        refresh=list(refresh.refresh),
        dry=dry,
        storage=project.storage,
    )
    for result in results:
        if "pipeline_event_result" in result:
            yield str(result["pipeline_event_result"].event.message)


@contextmanager
def observe_run(
    session: Session,
    project: Project,
    definitions: Definitions,
    progress_options: ProgressOptions,
    view: FlowsView,
    on_batch: Any = None,
) -> Iterator[Observer]:
    """Observe a run for the duration of a `with` block."""
    table = ProgressTable(project.name)
    settings = (
        {"bootstrap.servers": progress_options.bootstrap}
        if progress_options.bootstrap
        else first_brokers(definitions)
    )
    publisher = None
    if progress_options.publishes and settings:
        publisher = StatusPublisher(settings, progress_options.topic)
    observer = Observer(table, definitions, publisher, on_batch)
    with ExitStack() as stack:
        if progress_options.metrics_port is not None:
            server = MetricsServer(progress_options.metrics_port, lambda: families(table))
            stack.enter_context(server)
            view.print_message(f"metrics at http://127.0.0.1:{server.port}/metrics")
        observer.listen(session.spark)
        observer.start()
        stack.callback(observer.close)
        yield observer
    view.show(flows_of(table))


def run_once(
    project: Project,
    spark_options: SparkOptions,
    refresh: Refresh,
    progress_options: ProgressOptions,
    view: FlowsView,
) -> None:
    """Update a pipeline once and show how it goes. Raise PipelineError when a flow failed."""
    require_no_backfill(project.storage_path)
    view.print_message(
        f"pipeline {project.name}: starting Spark ({spark_options.remote or spark_options.master})"
    )
    with open_session(project, spark_options) as session:
        definitions = Definitions()
        graph_id = register(session, project, definitions)
        with observe_run(session, project, definitions, progress_options, view) as observer:
            one = Update(session, project, graph_id, refresh, observer, view)
            one.run()
    if one.error is not None:
        raise PipelineError(f"the update failed: {query_failure(str(one.error))}") from one.error


class Update:
    """An update on a thread of its own, while this one shows it."""

    def __init__(
        self,
        session: Session,
        project: Project,
        graph_id: str,
        refresh: Refresh,
        observer: Observer,
        view: FlowsView,
    ) -> None:
        """Prepare the update of a registered graph."""
        self._session = session
        self._project = project
        self._graph_id = graph_id
        self._refresh = refresh
        self._observer = observer
        self._view = view
        self.error: Exception | None = None
        """The error that ended the update; None when it succeeded."""
        self._completed: list[str] = []

    def run(self) -> None:
        """Run to the end, also of an update that fails. Raise DriverEnded."""
        worker = threading.Thread(target=self._work, name="update", daemon=True)
        worker.start()
        while worker.is_alive():
            self._session.require_driver()
            worker.join(_POLL_INTERVAL_S)
            self._view.show(flows_of(self._observer.table))
        self._observer.wait_for_reports(self._completed)
        for name in self._completed:
            self._observer.table.ended(name, DONE, now_ms())

    def _work(self) -> None:
        try:
            for message in update(
                self._session, self._project, self._graph_id, self._refresh, dry=False
            ):
                self._record_event(message)
        except Exception as error:  # noqa: BLE001 - shown by the thread that waits for this one
            self.error = error

    def _record_event(self, message: str) -> None:
        """Record the state of a flow from an event such as `Flow spark_catalog.default.x is RUNNING.`."""
        event, error = event_and_error(message)
        self._view.print_message(f"{event} {error}".rstrip())
        words = event.rstrip(".").split()
        if len(words) >= 4 and words[0] == "Flow":
            name, state = unqualified(words[1].strip("'")), words[-1]
            if state == "RUNNING":
                output = self._observer.definitions.output(name)
                is_view = output is not None and output.kind == "materialized view"
                kind = "view" if is_view else "stream"
                self._observer.table.started(name, now_ms(), kind=kind)
            elif state == "COMPLETED":
                self._completed.append(name)
                self._observer.table.ended(name, DONE, now_ms())
            elif "FAILED" in words:
                # Spark has called a stream COMPLETED before it found that it failed.
                self._completed = [one for one in self._completed if one != name]
                self._observer.table.failed(name, error or event, now_ms(), restarts=False)


def require_flows(definitions: Definitions, names: Sequence[str]) -> None:
    """Raise PipelineError for a name that is neither a flow nor its target."""
    existing = {unqualified(flow.name) for flow in definitions.flows} | {
        unqualified(output.name) for output in definitions.outputs
    }
    for name in names:
        if unqualified(name) not in existing:
            raise PipelineError(
                f"the project has no flow {name!r}; it has {', '.join(sorted(existing))}"
            )
