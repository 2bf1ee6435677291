"""The activity pipeline of the demo: the template's project, kept running between the demo's broker and its folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kavka.pipelines.definitions import Definitions
from kavka.pipelines.live_run import LiveRun, Pace, live_graph
from kavka.pipelines.observer import Observer
from kavka.pipelines.project import load_project, make_project
from kavka.pipelines.run import Watching, register, watched
from kavka.pipelines.session import Session, Where, open_session
from kavka.spark.queries.progress import FlowProgress
from kavka.spark.session import SHORT_LIVED_JVM

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

NAME = "demo"
ACCESS, QUARANTINE, ALERTS, LIMITS, SESSIONS, FEED = (
    f"{NAME}-{topic}" for topic in ("access", "quarantine", "alerts", "limits", "sessions", "feed")
)
TOPICS = (ACCESS, QUARANTINE, ALERTS, LIMITS, SESSIONS, FEED)
_OF_TOPIC = ("events", "malformed_lines", "limits")
"""Flows that read the access topic; the others read the table `events`."""
_MAX_RESTARTS = 10
_STALLED_S = 60.0
"""Seconds without a row after which a flow is taken for stuck."""


class PipelineFailed(Exception):
    """A flow fails again and again; the message has its last error."""


class DemoPipeline:
    """Runs from `__enter__` to `finish`, or to `__exit__`. One thread calls its methods."""

    def __init__(
        self, bootstrap: str, directory: Path, say: Callable[[str], None], refresh_s: float
    ) -> None:
        """Make the project below `directory`; views are refreshed every so many seconds."""
        make_project(directory / NAME, "activity", bootstrap)
        self._project = load_project(directory / NAME)
        self._where = Where("local[2]", conf=_settings(directory))
        self._messages = _Messages(say)
        self._pace = Pace(refresh_s=refresh_s, stop_timeout_s=20.0)
        self._stack = ExitStack()
        self._is_running = False
        self._progressed = (0, 0.0)
        self._top: list[tuple[int, str, int]] = []
        self._session: Session
        self._live: LiveRun
        self._observer: Observer

    def __enter__(self) -> Self:
        """Start Spark and the flows. Raise SparkMissing, PipelineError and what Spark raises."""
        with ExitStack() as stack:
            session = stack.enter_context(open_session(self._project, self._where))
            definitions = Definitions()
            graph_id = register(session, self._project, definitions)
            graph = live_graph(session, graph_id, self._project, self._pace)
            self._session = session
            self._live = LiveRun(graph, self._messages, self._pace, self._look_at_pages)
            self._observer = stack.enter_context(
                watched(
                    session,
                    self._project,
                    definitions,
                    Watching(),
                    self._messages,
                    self._live.made_batch,
                )
            )
            self._live.start(self._observer)
            self._is_running = True
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the flows, if they run, and Spark."""
        with self._stack:
            self._end()

    def _end(self) -> None:
        if self._is_running:
            self._is_running = False
            self._live.end()

    @property
    def flows(self) -> Sequence[FlowProgress]:
        """The progress of flows and views."""
        return list(self._observer.table)

    @property
    def events(self) -> Path:
        """The folder of the table's files."""
        assert self._project.storage_path is not None, "the demo's storage is a folder"
        return self._project.storage_path / "tables" / "events"

    def step(self) -> None:
        """Start flows that are due. Raise PipelineFailed for one that fails again and again."""
        self._live.step()
        for flow in self._observer.table:
            if flow.restarts > _MAX_RESTARTS:
                raise PipelineFailed(f"the flow {flow.flow} fails: {flow.last_error}")

    def is_warm(self) -> bool:
        """Return whether each flow that reads the topic has ended its first batch: Spark compiles and loads in it."""
        return self._live.have_begun(_OF_TOPIC)

    def has_taken(self, records: int, well_formed: int) -> bool:
        """Return whether every flow has read this many records of the topic, or rows of the table.

        True, too, when nothing has moved for a minute: the audit says then what is missing.
        """
        streams = [flow for flow in self._observer.table if flow.kind == "stream"]
        now, total = time.monotonic(), sum(flow.rows_in for flow in streams)
        if total != self._progressed[0]:
            self._progressed = (total, now)
        wanted = {True: records, False: well_formed}
        done = all(flow.rows_in >= wanted[flow.flow in _OF_TOPIC] for flow in streams)
        return done or now - self._progressed[1] > _STALLED_S

    def finish(self) -> None:
        """Let the flows process what is left, end them, and compute the views of all. Raise what Spark raises."""
        for _ in range(2):  # flows that read the table come after the flow that fills it
            self._live.process_available()
        self._end()
        if not self._live.refresh():
            failed = next(flow for flow in self._observer.table if flow.last_error)
            raise PipelineFailed(f"the view {failed.flow} fails: {failed.last_error}")

    def view(self, name: str, *order: str) -> pa.Table:
        """Return a view as a table of Arrow, sorted."""
        frame: Any = self._session.spark.read.table(name)
        table: pa.Table = frame.orderBy(*order).toArrow()
        return table

    def _look_at_pages(self) -> None:
        """Read the newest top pages, in the thread that refreshes the views: while one is replaced it is empty."""
        rows = self.view("top_pages", "window_start", "rank").to_pylist()
        windows = sorted({row["window_start"] for row in rows})[-2:]
        self._top = [
            (int(row["window_start"].timestamp()), row["page"], row["requests"])
            for row in rows
            if row["window_start"] == windows[0]
        ]

    def top_pages(self, length: int) -> tuple[int | None, list[tuple[str, int]]]:
        """Return the start of the newest window that is filled (the newest but one) and its first pages."""
        top = self._top
        return top[0][0] if top else None, [(page, requests) for _, page, requests in top[:length]]


class _Messages:
    """Messages of the run of the flows; the demo shows their progress itself."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def show(self, _flows: Sequence[FlowProgress], /) -> None:
        """Show nothing."""

    def say(self, message: str) -> None:
        """Pass it on."""
        self._say(message)


def _settings(directory: Path) -> dict[str, str]:
    """Return what the demo sets beside the project: nothing is left behind, and the JVM compiles quickly, not well."""
    scratch = directory / "spark"
    scratch.mkdir()
    return {
        # It ends with the demo: a catalogue that stays would only cost time.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.local.dir": str(scratch),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={scratch} {SHORT_LIVED_JVM}",
    }
