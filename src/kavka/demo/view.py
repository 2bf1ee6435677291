"""The demo's output: a live view in a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

from kavka.spark.queries.flow_progress import FlowProgress

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_PLAIN_EVERY_S = 5.0


@dataclass(slots=True)
class Snapshot:
    """A snapshot of the running demo."""

    phase: str
    elapsed_s: float = 0.0
    site_time_ms: int = 0
    sent: int = 0
    sent_per_second: float = 0.0
    flows: Sequence[FlowProgress] = ()
    window_start_s: int | None = None
    top_pages: list[tuple[str, int]] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)
    alert_count: int = 0
    session_count: int = 0
    limit_count: int = 0


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%d %b %Y %H:%M")


def plain(snapshot: Snapshot) -> str:
    """Return a snapshot as one line."""
    lag = max((flow.lag_records for flow in snapshot.flows), default=0)
    top = ", ".join(f"{page} {requests}" for page, requests in snapshot.top_pages[:3]) or "-"
    return (
        f"[{snapshot.elapsed_s:5.1f} s] {snapshot.phase}: sent {snapshot.sent} ({snapshot.sent_per_second:.0f}/s), "
        f"lag {lag}, alerts {snapshot.alert_count}, limits {snapshot.limit_count}, "
        f"sessions {snapshot.session_count}, top pages {top}"
    )


def rich_view(snapshot: Snapshot) -> RenderableType:
    """Return a snapshot as tables."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    site = _clock(snapshot.site_time_ms / 1000) if snapshot.site_time_ms else "-"
    head = Text.assemble(
        (snapshot.phase, "bold"), f"   {snapshot.elapsed_s:5.1f} s   time of the site {site}   sent ",
        (f"{snapshot.sent:,}", "bold"), f"   {snapshot.sent_per_second:,.0f} records/s   ",
        f"sessions {snapshot.session_count:,}   limits {snapshot.limit_count:,}",
    )  # fmt: skip
    window = (
        f"from {_clock(snapshot.window_start_s)}" if snapshot.window_start_s is not None else ""
    )
    pages = Table("page", "requests", title=f"top pages {window}", expand=False)
    for page, requests in snapshot.top_pages:
        pages.add_row(Text(page), f"{requests:,}")
    alerts = Text("\n".join(snapshot.alerts) or "none yet", no_wrap=True, overflow="ellipsis")
    return Group(
        Panel(head, title="kavka demo"),
        Columns([_flows_table(snapshot.flows), pages]),
        Panel(alerts, title=f"alerts ({snapshot.alert_count:,})"),
    )


def _flows_table(flows: Sequence[FlowProgress]) -> Table:
    """Return the streams as a narrow table; the caption is about the views."""
    from rich.table import Table

    refreshed = [flow for flow in flows if flow.kind == "view" and flow.batch_id >= 0]
    seconds = sum(flow.batch_ms for flow in refreshed) / 1000
    caption = f"{len(refreshed)} views, refreshed in {seconds:.1f} s" if refreshed else None
    table = Table("flow", title="Spark", caption=caption, expand=False)
    for title in ("rows", "rows/s", "lag"):
        table.add_column(title, justify="right")
    for flow in flows:
        if flow.kind == "stream":
            lag = f"{flow.lag_records:,}" if flow.lag else "-"
            table.add_row(flow.flow, f"{flow.rows_in:,}", f"{flow.rows_per_second:,.0f}", lag)
    return table


class PlainView:
    """Prints a line now and then, and at once when the phase changes."""

    def __init__(self, out: TextIO) -> None:
        """Write to `out`."""
        self._out = out
        self._phase = ""
        self._printed_s = 0.0

    def show(self, snapshot: Snapshot, /) -> None:
        """Print unless a line of the same phase was printed lately."""
        now = time.monotonic()
        if snapshot.phase == self._phase and now - self._printed_s < _PLAIN_EVERY_S:
            return
        self._phase, self._printed_s = snapshot.phase, now
        self.print_message(plain(snapshot))

    def print_message(self, message: str) -> None:
        """Print a line."""
        print(message, file=self._out, flush=True)
