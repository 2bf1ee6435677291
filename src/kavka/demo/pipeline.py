"""The activity pipeline of the demo: the template's project, kept running between the demo's broker and its folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kavka.pipelines.definitions import Definitions
from kavka.pipelines.live_run import LiveRun, LiveRunOptions, live_graph
from kavka.pipelines.observer import Observer
from kavka.pipelines.project import load_project, make_project
from kavka.pipelines.run import ProgressOptions, observe_run, register
from kavka.pipelines.session import Session, SparkOptions, open_session
from kavka.spark.queries.flow_progress import FlowProgress
from kavka.spark.session import SHORT_LIVED_JVM

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

NAME = "demo"
ACCESS, QUARANTINE, ALERTS, LIMITS, SESSIONS, FEED = (
    f"{NAME}-{topic}" for topic in ("access", "quarantine", "alerts", "limits", "sessions", "feed")
)
TOPICS = (ACCESS, QUARANTINE, ALERTS, LIMITS, SESSIONS, FEED)
_TOPIC_FLOWS = ("events", "malformed_lines", "limits", "feed")
"""Flows that read the access topic; the others read the table `events`."""
_MAX_RESTARTS = 10
_STALLED_S = 60.0
"""Seconds without a row after which a flow counts as stalled."""


class PipelineFailed(Exception):
    """A flow has failed more often than it may restart; the message has its last error."""


class DemoPipeline:
    """Runs from `__enter__` to `finish`, or to `__exit__`. One thread calls its methods."""

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        print_message: Callable[[str], None],
        refresh_s: float,
    ) -> None:
        """Make the project below `directory`; views are refreshed every so many seconds."""
        make_project(directory / NAME, "activity", bootstrap)
        self._project = load_project(directory / NAME)
        self._spark_options = SparkOptions("local[2]", conf=_settings(directory))
        self._messages = _Messages(print_message)
        self._options = LiveRunOptions(refresh_s=refresh_s, stop_timeout_s=20.0)
        self._stack = ExitStack()
        self._is_running = False
        self._last_progress = (-1, 0.0)
        self._top: list[tuple[int, str, int]] = []
        self._session: Session
        self._live: LiveRun
        self._observer: Observer

    def __enter__(self) -> Self:
        """Start Spark and the flows. Raise SparkMissing, PipelineError and Spark's errors."""
        with ExitStack() as stack:
            session = stack.enter_context(open_session(self._project, self._spark_options))
            definitions = Definitions()
            graph_id = register(session, self._project, definitions)
            graph = live_graph(session, graph_id, self._project, self._options)
            self._session = session
            self._live = LiveRun(graph, self._messages, self._options, self._read_top_pages)
            self._observer = stack.enter_context(
                observe_run(
                    session,
                    self._project,
                    definitions,
                    ProgressOptions(),
                    self._messages,
                    self._live.record_batch,
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
        """Stop the flows, if they run, and Spark. After an error or Ctrl-C no batch is waited for."""
        with self._stack:
            if kind is None:
                self._end()
            elif self._is_running:
                self._is_running = False
                self._live.abandon()

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
        """Start flows that are due. Raise PipelineFailed for one that has failed too often."""
        self._live.step()
        for flow in self._observer.table:
            if flow.restarts > _MAX_RESTARTS:
                raise PipelineFailed(f"the flow {flow.flow} fails: {flow.last_error}")

    def is_warm(self) -> bool:
        """Return whether each flow that reads the topic has completed its first batch, in which Spark compiles."""
        return self._live.have_started(_TOPIC_FLOWS)

    def has_processed(self, records: int, well_formed: int) -> bool:
        """Return whether every flow has read this many records of the topic, or rows of the table.

        True, too, after a minute without progress: then the audit reports what is missing.
        """
        streams = [flow for flow in self._observer.table if flow.kind == "stream"]
        now, total = time.monotonic(), sum(flow.rows_in for flow in streams)
        if total != self._last_progress[0]:
            self._last_progress = (total, now)
        expected = {True: records, False: well_formed}
        is_done = all(flow.rows_in >= expected[flow.flow in _TOPIC_FLOWS] for flow in streams)
        return is_done or now - self._last_progress[1] > _STALLED_S

    def finish(self) -> None:
        """Process the remaining records, stop the flows, and compute the views once more. Raise the errors of Spark."""
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

    def _read_top_pages(self) -> None:
        """Read the newest top pages, in the thread that refreshes the views: a view is empty while it is replaced."""
        rows = self.view("top_pages", "window_start", "rank").to_pylist()
        windows = sorted({row["window_start"] for row in rows})[-2:]
        self._top = [
            (int(row["window_start"].timestamp()), row["page"], row["requests"])
            for row in rows
            if row["window_start"] == windows[0]
        ]

    def top_pages(self, length: int) -> tuple[int | None, list[tuple[str, int]]]:
        """Return the start of the newest complete window (the last but one) and its first pages."""
        top = self._top
        return top[0][0] if top else None, [(page, requests) for _, page, requests in top[:length]]


class _Messages:
    """A view for messages only: the demo shows the flows' progress itself."""

    def __init__(self, print_message: Callable[[str], None]) -> None:
        self._print_message = print_message

    def show(self, _flows: Sequence[FlowProgress], /) -> None:
        """Ignore the flows' progress."""

    def print_message(self, message: str) -> None:
        """Print a message in the demo's view."""
        self._print_message(message)


def _settings(directory: Path) -> dict[str, str]:
    """Return additional settings: scratch files below `directory`, and a JVM that is tuned for a short run."""
    scratch = directory / "spark"
    scratch.mkdir()
    return {
        # The catalogue ends with the demo: a persistent one would only cost time.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.local.dir": str(scratch),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={scratch} {SHORT_LIVED_JVM}",
    }
