"""The display of a run: a table that is redrawn in a terminal, lines anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO, TypeVar

from kavka.redrawing import redrawing_console, start_redrawing
from kavka.spark.queries.flow_progress import FlowProgress, expectation_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

_PLAIN_EVERY_S = 10.0
State = TypeVar("State")
Shown = TypeVar("Shown", contravariant=True)


class View(Protocol[Shown]):
    """A display of a state that changes, and of messages."""

    def show(self, shown: Shown, /) -> None:
        """Show the newest state."""

    def print_message(self, message: str) -> None:
        """Print a message, once."""


FlowsView = View[Sequence[FlowProgress]]
"""A display of flows."""


def plain(flow: FlowProgress) -> str:
    """Return a flow's progress as one line."""
    parts = [f"{flow.flow}: {flow.state}"]
    if flow.batch_id >= 0:
        parts.append(f"batch {flow.batch_id} in {flow.batch_ms} ms")
    if flow.kind == "stream":
        written = "" if flow.rows_out is None else f", {flow.rows_out} out"
        parts.append(f"rows {flow.rows_in} in{written}, {flow.rows_per_second:.0f}/s")
    if flow.lag:
        seconds = flow.lag_seconds
        age = "" if seconds is None else f", {seconds:.1f} s"
        parts.append(f"lag {flow.lag_records} records{age}")
    parts += expectation_lines(flow)
    if flow.restarts:
        parts.append(f"{flow.restarts} restarts")
    return "; ".join(parts)


class PlainView:
    """Prints a line for each flow whose progress changed, every ten seconds, and when its state changes."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        """Write to `out`."""
        self._out = out
        self._clock = clock
        self._shown: dict[str, tuple[str, str, float]] = {}

    def show(self, flows: Sequence[FlowProgress]) -> None:
        """Print what changed."""
        now = self._clock()
        for flow in flows:
            state, line, at = self._shown.get(flow.flow, ("", "", 0.0))
            text = plain(flow)
            if flow.state != state or (text != line and now - at >= _PLAIN_EVERY_S):
                self._shown[flow.flow] = (flow.state, text, now)
                self.print_message(text)

    def print_message(self, message: str) -> None:
        """Print a line."""
        print(f"{time.strftime('%H:%M:%S')} {message}", file=self._out, flush=True)


def rich_table(flows: Sequence[FlowProgress]) -> RenderableType:
    """Return the flows as a table of rich."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table("flow", "state", box=None, pad_edge=False)
    for title in (
        "batch",
        "ms",
        "rows in",
        "rows out",
        "rows/s",
        "lag",
        "lag s",
        "late",
        "failed rows",
        "restarts",
    ):
        table.add_column(title, justify="right")
    colours = {"running": "green", "waiting": "yellow", "failed": "red", "done": "cyan"}
    for flow in flows:
        seconds = flow.lag_seconds
        is_stream = flow.kind == "stream"
        table.add_row(
            flow.flow,
            Text(flow.state, style=colours.get(flow.state, "")),
            str(flow.batch_id) if flow.batch_id >= 0 else "-",
            str(flow.batch_ms),
            f"{flow.rows_in:,}" if is_stream else "-",
            "-" if flow.rows_out is None else f"{flow.rows_out:,}",
            f"{flow.rows_per_second:,.0f}" if is_stream else "-",
            f"{flow.lag_records:,}" if flow.lag else "-",
            "-" if seconds is None else f"{seconds:.1f}",
            f"{flow.late_rows:,}",
            "-" if flow.failed_rows is None else f"{flow.failed_rows:,}",
            str(flow.restarts),
        )
    errors = [
        Text(f"{flow.flow}: {flow.last_error}", style="red") for flow in flows if flow.last_error
    ]
    counted = [
        Text(f"{flow.flow}: {line}", style="yellow" if flow.failed_rows else "")
        for flow in flows
        for line in expectation_lines(flow)
    ]
    return Group(table, *counted, *errors)


@contextmanager
def open_view(
    plain_view: Callable[[TextIO], View[State]],
    draw: Callable[[State], RenderableType],
    out: TextIO | None = None,
    *,
    transient: bool = False,
) -> Iterator[View[State]]:
    """Open the view that fits `out` (standard output): redrawn in a terminal, else plain; so too with TERM=dumb.

    It is plain without rich, too. One that is `transient` is gone at the end.
    """
    out = out or sys.stdout
    if not out.isatty():
        yield plain_view(out)
        return
    console = redrawing_console(out)
    if console is None:
        yield plain_view(out)
        return
    from rich.live import Live

    live = Live(console=console, refresh_per_second=4, transient=transient)
    start_redrawing(live)
    try:

        class RichView:
            """Redraws in place, with messages above."""

            def show(self, shown: State, /) -> None:
                """Redraw."""
                live.update(draw(shown))

            def print_message(self, message: str) -> None:
                """Print above what is drawn."""
                live.console.print(message, markup=False, highlight=False)

        yield RichView()
    finally:
        live.stop()


def open_flows_view(out: TextIO | None = None) -> AbstractContextManager[FlowsView]:
    """Open the view of a run's flows."""
    return open_view(PlainView, rich_table, out)
