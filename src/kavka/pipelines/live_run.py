"""A run of live flows: starts, restarts after failures, refreshes of views in a thread, common end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kavka.pipelines.errors import query_failure
from kavka.pipelines.observer import Observer, flows_of
from kavka.pipelines.supervision import FLOWS_AT_ONCE, RefreshSchedule, Restarts
from kavka.spark.queries.flow_progress import STOPPED
from kavka.spark.queries.watch import now_ms

if TYPE_CHECKING:
    from kavka.pipelines.live import LiveGraph, LiveQuery
    from kavka.pipelines.project import Project
    from kavka.pipelines.session import Session
    from kavka.pipelines.view import FlowsView

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.1
_START_MS = 10_000
"""Milliseconds after which a flow whose first batch is long no longer holds up others."""


@dataclass(frozen=True, slots=True)
class LiveRunOptions:
    """Intervals and time-outs of a live run."""

    trigger_ms: int = 200
    """Minimum time between the starts of two batches of a flow."""
    refresh_s: float = 5.0
    """Seconds between two refreshes of the views, if a flow has made a batch meanwhile."""
    stop_timeout_s: float = 60.0
    """Seconds for the last batches at the end."""


def live_graph(
    session: Session, graph_id: str, project: Project, options: LiveRunOptions
) -> LiveGraph:
    """Resolve a registered graph and make its tables. Raise what Spark raises for one that is wrong."""
    from kavka.pipelines.live import LiveGraph

    return LiveGraph(session, graph_id, project.storage, options.trigger_ms)


class LiveRun:
    """Live flows. One thread calls `start`, then `step` repeatedly, then `end`."""

    def __init__(
        self,
        graph: LiveGraph,
        view: FlowsView,
        options: LiveRunOptions,
        on_refresh: Callable[[], None] | None = None,
    ) -> None:
        """Prepare a run of a graph; `on_refresh` is called in the thread of the views after each refresh of all."""
        self._graph = graph
        self._view = view
        self._options = options
        self._on_refresh = on_refresh or (lambda: None)
        self._stopping = threading.Event()
        self._refresh_lock = threading.Lock()
        self._refresher = threading.Thread(target=self._refresh_views, name="views", daemon=True)
        self._restarts = Restarts(graph.streams, now_ms())
        self._running: dict[str, LiveQuery] = {}
        self._starting: dict[str, int] = {}
        """Start times of flows that have not ended a batch yet."""
        self._batches: dict[str, int] = dict.fromkeys(graph.streams, 0)
        self._observer: Observer

    def record_batch(self, flow: str) -> None:
        """Record a completed batch with rows; called in the thread of Spark's listener."""
        self._restarts.record_batch(flow)
        self._batches[flow] = self._batches.get(flow, 0) + 1

    def start(self, observer: Observer) -> None:
        """Start the refreshes of views; flows start in the first step."""
        self._observer = observer
        for name in self._graph.streams:
            observer.table.waits(name, now_ms())
        self._refresher.start()

    def step(self) -> None:
        """Start the flows that are due, some at a time, and find those that have failed."""
        for name, query in list(self._running.items()):
            if not query.is_active:
                del self._running[name]
                self._failed(name, query.failure() or "the query was stopped from elsewhere")
        self._start_due(FLOWS_AT_ONCE - self._count_starting())

    def _start_due(self, count: int | None) -> None:
        for name in self._restarts.due(now_ms(), count):
            try:
                self._running[name] = self._graph.start(name)
            except Exception as error:  # noqa: BLE001 - one flow's failure is not another's: it is tried again
                self._failed(name, query_failure(str(error)))
            else:
                self._starting[name] = now_ms()
                self._observer.table.started(name, now_ms())

    def _count_starting(self) -> int:
        """Return how many flows have not ended a batch since their start just now."""
        self._starting = {
            name: began_ms
            for name, began_ms in self._starting.items()
            if name in self._running
            and now_ms() - began_ms < _START_MS
            and not self._running[name].has_completed_batch
        }
        return len(self._starting)

    def _failed(self, name: str, error: str) -> None:
        wait_ms = self._restarts.failed(name, now_ms())
        self._observer.table.failed(name, error, now_ms(), restarts=True)
        self._view.print_message(
            f"flow {name} failed and starts again in {wait_ms / 1000:g} s: {error}"
        )

    def have_started(self, flows: Iterable[str]) -> bool:
        """Return whether each of these flows runs and has ended a batch, with rows or without."""
        running = [self._running.get(flow) for flow in flows]
        return all(query is not None and query.has_completed_batch for query in running)

    def process_available(self) -> None:
        """Wait until each flow has processed what there was, in the order of the graph. Raise what fails a flow.

        A flow that reads the table of another has what that one has written only at the next call.
        """
        self._start_due(None)
        for name in self._graph.streams:
            if name in self._running:
                self._running[name].process_available()

    def end(self) -> None:
        """End all flows after their current batches; stop those that take longer than the time-out."""
        self._stopping.set()
        self._view.print_message("ending: the flows finish their batches")
        deadline = time.monotonic() + self._options.stop_timeout_s
        for query in self._running.values():
            if query.is_active:
                query.finish()
        for name, query in self._running.items():
            if not query.wait(max(deadline - time.monotonic(), 0)):
                self._view.print_message(
                    f"flow {name} is stopped in a batch, which its next start repeats"
                )
                query.stop()
            self._observer.table.ended(name, STOPPED, now_ms())
        self._refresher.join(max(deadline - time.monotonic(), 0))
        for view in self._graph.views:
            self._observer.table.ended(view, STOPPED, now_ms())
        self._view.show(flows_of(self._observer.table))

    def abandon(self) -> None:
        """Stop all flows at once, in their batches: for a run whose results are thrown away, and whose driver stops."""
        self._stopping.set()
        for name, query in self._running.items():
            try:
                query.stop()
            except Exception as error:  # noqa: BLE001 - the driver, which stops next, ends it in any case
                log.info("flow was not stopped flow=%s error=%s", name, error)
            self._observer.table.ended(name, STOPPED, now_ms())

    def driver_ended(self, reason: str) -> None:
        """Record that no flow runs any more, because the driver has ended."""
        self._stopping.set()
        for name in (*self._graph.streams, *self._graph.views):
            self._observer.table.failed(name, reason, now_ms(), restarts=False)
        self._view.show(flows_of(self._observer.table))

    # Views

    def _refresh_views(self) -> None:
        """Refresh the views when it is time."""
        schedule = RefreshSchedule(round(self._options.refresh_s * 1000))
        while self._graph.views and not self._stopping.wait(POLL_INTERVAL_S):
            batches = dict(self._batches)
            if schedule.is_due(now_ms(), batches):
                is_fresh = self.refresh()
                schedule.refreshed(now_ms(), batches, failed=not is_fresh)
                if is_fresh and not self._stopping.is_set():
                    self._call_on_refresh()

    def _call_on_refresh(self) -> None:
        try:
            self._on_refresh()
        except Exception as error:  # noqa: BLE001 - what looks at the views does not end their refreshes
            self._view.print_message(f"the views were not read: {query_failure(str(error))}")

    def refresh(self) -> bool:
        """Compute all views, in the order of the graph, and return whether that succeeded.

        After `end` it computes them once more, from all that the flows have written.
        """
        with self._refresh_lock:
            refreshed = [self._refresh(view) for view in self._graph.views]
        return all(refreshed)

    def _refresh(self, view: str) -> bool:
        began_ms = now_ms()
        table = self._observer.table
        if self._stopping.is_set() and threading.current_thread() is self._refresher:
            return True
        try:
            self._graph.refresh(view)
        except Exception as error:  # noqa: BLE001 - the view stays as it was, flows and other views go on
            text = query_failure(str(error))
            table.failed(view, text, now_ms(), restarts=True)
            self._view.print_message(f"view {view} was not refreshed: {text}")
            return False
        table.started(view, now_ms(), kind="view")
        table.refreshed(view, now_ms() - began_ms, now_ms())
        return True
