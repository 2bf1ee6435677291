"""A pipeline that keeps running: flows stay live, views are refreshed on an interval, failed flows start again.

    driver in this process:   live flows (`kavka.pipelines.live_run`) + refreshes of views in a thread of their own
    Spark Connect elsewhere:  one triggered update after the other in one session, which is slower (decision 037)

SIGTERM and SIGINT end it at the border of a batch; a second one at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kavka.pipelines.checkpoints import require_no_backfill
from kavka.pipelines.definitions import Definitions
from kavka.pipelines.errors import query_failure
from kavka.pipelines.live_run import POLL_INTERVAL_S, LiveRun, LiveRunOptions, live_graph
from kavka.pipelines.observer import Observer, flows_of
from kavka.pipelines.project import Project
from kavka.pipelines.run import ProgressOptions, Refresh, observe_run, register, update
from kavka.pipelines.session import Session, SparkOptions, open_session
from kavka.pipelines.supervision import Restarts
from kavka.pipelines.view import FlowsView
from kavka.spark.queries.flow_progress import DONE
from kavka.spark.queries.watch import now_ms


def run_continuously(
    project: Project,
    spark_options: SparkOptions,
    progress_options: ProgressOptions,
    options: LiveRunOptions,
    view: FlowsView,
) -> None:
    """Run until SIGTERM or SIGINT. Raise PipelineError."""
    require_no_backfill(project.storage_path)
    with _shutdown_event() as shutdown:
        view.print_message(
            f"pipeline {project.name}: starting Spark ({spark_options.remote or spark_options.master})"
        )
        with open_session(project, spark_options) as session:
            definitions = Definitions()
            graph_id = register(session, project, definitions)
            if session.jvm is None:
                with observe_run(session, project, definitions, progress_options, view) as observer:
                    _TriggeredUpdates(session, project, observer, view, options, shutdown).run()
            else:
                live = LiveRun(live_graph(session, graph_id, project, options), view, options)
                with observe_run(
                    session, project, definitions, progress_options, view, live.record_batch
                ) as observer:
                    _run_live(session, live, observer, view, shutdown)


def _run_live(
    session: Session,
    live: LiveRun,
    observer: Observer,
    view: FlowsView,
    shutdown: threading.Event,
) -> None:
    """Run until shutdown. Raise DriverEnded."""
    live.start(observer)
    try:
        while not shutdown.is_set():
            session.require_driver()
            live.step()
            view.show(flows_of(observer.table))
            shutdown.wait(POLL_INTERVAL_S)
    except BaseException as error:
        ended = session.driver_failure(error)
        if ended is None:
            live.end()
            raise
        live.driver_ended(str(ended))
        raise ended from error
    live.end()


@contextmanager
def _shutdown_event() -> Iterator[threading.Event]:
    """Yield an event that the first SIGTERM or SIGINT sets; the second one raises KeyboardInterrupt."""
    shutdown = threading.Event()

    def end(number: int, frame: object) -> None:
        if shutdown.is_set():
            raise KeyboardInterrupt
        shutdown.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield shutdown
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _TriggeredUpdates:
    """One update after the other, where the driver is in another process."""

    def __init__(
        self,
        session: Session,
        project: Project,
        observer: Observer,
        view: FlowsView,
        options: LiveRunOptions,
        shutdown: threading.Event,
    ) -> None:
        self._session = session
        self._project = project
        self._observer = observer
        self._view = view
        self._options = options
        self._shutdown = shutdown

    def run(self) -> None:
        """Run until shutdown, which takes effect between two updates."""
        restarts = Restarts(["update"], now_ms())
        while not self._shutdown.is_set():
            if restarts.due(now_ms()):
                try:
                    self._update()
                except Exception as error:  # noqa: BLE001 - the next update begins where this one failed
                    wait_ms = restarts.failed("update", now_ms())
                    text = query_failure(str(error))
                    self._view.print_message(
                        f"an update failed, the next begins in {wait_ms / 1000:g} s: {text}"
                    )
                else:
                    restarts = Restarts(["update"], now_ms() + self._options.trigger_ms)
            self._view.show(flows_of(self._observer.table))
            self._shutdown.wait(POLL_INTERVAL_S)

    def _update(self) -> None:
        # A graph of Spark Connect runs once.
        graph_id = register(self._session, self._project, Definitions())
        for _ in update(self._session, self._project, graph_id, Refresh(), dry=False):
            self._view.show(flows_of(self._observer.table))
        for flow in self._observer.table:
            self._observer.table.ended(flow.flow, DONE, now_ms())
