"""A pipeline that keeps running: flows stay live, views are refreshed on an interval, failed flows start again.

    driver in this process:   live flows (`kavka.pipelines.live`) + refreshes of views in a thread of their own
    Spark Connect elsewhere:  one triggered update after the other in one session, which is slower (decision 037)

SIGTERM and SIGINT end it at the border of a batch; a second one at once.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kavka.pipelines.checkpoints import require_no_backfill
from kavka.pipelines.definitions import Definitions
from kavka.pipelines.errors import query_failure
from kavka.pipelines.observer import Observer, flows_of
from kavka.pipelines.project import Project
from kavka.pipelines.run import Refresh, Watching, register, update, watched
from kavka.pipelines.session import Session, Where, open_session
from kavka.pipelines.supervision import RefreshSchedule, Restarts
from kavka.pipelines.view import View, open_view
from kavka.spark.queries.progress import DONE, STOPPED
from kavka.spark.queries.watch import now_ms

if TYPE_CHECKING:
    from kavka.pipelines.live import LiveGraph, LiveQuery

_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Pace:
    """How often things are done."""

    trigger_ms: int = 200
    """The least time between the starts of two batches of a flow."""
    refresh_s: float = 5.0
    """Seconds between two refreshes of the views, if a flow has made a batch meanwhile."""
    stop_timeout_s: float = 60.0
    """Seconds for the last batches at the end."""


def run_continuously(project: Project, where: Where, watching: Watching, pace: Pace) -> int:
    """Run until a signal says so; return 0."""
    require_no_backfill(project.storage_path)
    with open_view() as view, _ending() as ending:
        view.say(f"pipeline {project.name}: starting Spark ({where.remote or where.master})")
        with open_session(project, where) as session:
            definitions = Definitions()
            graph_id = register(session, project, definitions)
            if session.jvm is None:
                with watched(session, project, definitions, watching, view) as observer:
                    _Repeated(session, project, observer, view, pace, ending).run()
            else:
                from kavka.pipelines.live import LiveGraph

                graph = LiveGraph(session, graph_id, project.storage, pace.trigger_ms)
                live = _Live(graph, view, pace, ending)
                with watched(
                    session, project, definitions, watching, view, live.made_batch
                ) as observer:
                    live.run(observer)
    return 0


@contextmanager
def _ending() -> Iterator[threading.Event]:
    """Give an event that the first SIGTERM or SIGINT sets; the second one raises KeyboardInterrupt."""
    ending = threading.Event()

    def end(number: int, frame: object) -> None:
        if ending.is_set():
            raise KeyboardInterrupt
        ending.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Live:
    """Live flows."""

    def __init__(self, graph: LiveGraph, view: View, pace: Pace, ending: threading.Event) -> None:
        self._graph = graph
        self._view = view
        self._pace = pace
        self._ending = ending
        self._restarts = Restarts(graph.streams, now_ms())
        self._running: dict[str, LiveQuery] = {}
        self._batches: dict[str, int] = dict.fromkeys(graph.streams, 0)
        self._observer: Observer

    def made_batch(self, flow: str) -> None:
        """Take the news of a batch with rows; Spark's listener calls from its own thread."""
        self._restarts.made_batch(flow)
        self._batches[flow] = self._batches.get(flow, 0) + 1

    def run(self, observer: Observer) -> None:
        """Run until the end is asked for."""
        self._observer = observer
        refresher = threading.Thread(target=self._refresh_views, name="views", daemon=True)
        refresher.start()
        try:
            while not self._ending.is_set():
                self._start_what_is_due()
                self._find_failures()
                self._view.show(flows_of(observer.table))
                self._ending.wait(_LOOK_EVERY_S)
        finally:
            self._ending.set()
            self._end(refresher)

    def _start_what_is_due(self) -> None:
        for name in self._restarts.due(now_ms()):
            try:
                self._running[name] = self._graph.start(name)
            except Exception as error:  # noqa: BLE001 - one flow's failure is not another's: it is tried again
                self._failed(name, query_failure(str(error)))
            else:
                self._observer.table.started(name, now_ms())

    def _find_failures(self) -> None:
        for name, query in list(self._running.items()):
            if not query.is_active:
                del self._running[name]
                self._failed(name, query.failure() or "the query was stopped from elsewhere")

    def _failed(self, name: str, error: str) -> None:
        wait_ms = self._restarts.failed(name, now_ms())
        self._observer.table.failed(name, error, now_ms(), restarts=True)
        self._view.say(f"flow {name} failed and starts again in {wait_ms / 1000:g} s: {error}")

    def _refresh_views(self) -> None:
        """Refresh the views when it is time."""
        schedule = RefreshSchedule(round(self._pace.refresh_s * 1000))
        while self._graph.views and not self._ending.wait(_LOOK_EVERY_S):
            batches = dict(self._batches)
            if schedule.is_due(now_ms(), batches):
                refreshed = [self._refresh(view) for view in self._graph.views]
                failed = not all(refreshed)
                schedule.refreshed(now_ms(), batches, failed=failed)

    def _refresh(self, view: str) -> bool:
        began_ms = now_ms()
        table = self._observer.table
        if self._ending.is_set():
            return True
        try:
            self._graph.refresh(view)
        except Exception as error:  # noqa: BLE001 - the view stays as it was, flows and other views go on
            text = query_failure(str(error))
            table.failed(view, text, now_ms(), restarts=True)
            self._view.say(f"view {view} was not refreshed: {text}")
            return False
        table.started(view, now_ms(), kind="view")
        table.refreshed(view, now_ms() - began_ms, now_ms())
        return True

    def _end(self, refresher: threading.Thread) -> None:
        """Let all flows end at the border of a batch, together; stop what takes longer than the time for it."""
        self._view.say("ending: the flows finish their batches")
        deadline = time.monotonic() + self._pace.stop_timeout_s
        for query in self._running.values():
            if query.is_active:
                query.finish()
        for name, query in self._running.items():
            if not query.wait(max(deadline - time.monotonic(), 0)):
                self._view.say(f"flow {name} is stopped in a batch, which its next start repeats")
                query.stop()
            self._observer.table.ended(name, STOPPED, now_ms())
        refresher.join(max(deadline - time.monotonic(), 0))
        for view in self._graph.views:
            self._observer.table.ended(view, STOPPED, now_ms())
        self._view.show(flows_of(self._observer.table))


class _Repeated:
    """One update after the other, where the driver is in another process."""

    def __init__(
        self,
        session: Session,
        project: Project,
        observer: Observer,
        view: View,
        pace: Pace,
        ending: threading.Event,
    ) -> None:
        self._session = session
        self._project = project
        self._observer = observer
        self._view = view
        self._pace = pace
        self._ending = ending

    def run(self) -> None:
        """Run until the end is asked for; it comes between two updates."""
        restarts = Restarts(["update"], now_ms())
        while not self._ending.is_set():
            if restarts.due(now_ms()):
                try:
                    self._update()
                except Exception as error:  # noqa: BLE001 - the next update begins where this one failed
                    wait_ms = restarts.failed("update", now_ms())
                    text = query_failure(str(error))
                    self._view.say(
                        f"an update failed, the next begins in {wait_ms / 1000:g} s: {text}"
                    )
                else:
                    restarts = Restarts(["update"], now_ms() + self._pace.trigger_ms)
            self._view.show(flows_of(self._observer.table))
            self._ending.wait(_LOOK_EVERY_S)

    def _update(self) -> None:
        # A graph of Spark Connect runs once.
        graph_id = register(self._session, self._project, Definitions())
        for _ in update(self._session, self._project, graph_id, Refresh(), dry=False):
            self._view.show(flows_of(self._observer.table))
        for flow in self._observer.table:
            self._observer.table.ended(flow.flow, DONE, now_ms())
