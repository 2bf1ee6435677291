"""The display of a run: as a person reads it, or as objects in lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kavka.cli.json_lines.lines import print_rows
from kavka.cli.json_lines.pipeline_shapes import FLOW
from kavka.cli.json_rows.pipelines import flow_row

if TYPE_CHECKING:
    from kavka.pipelines.view import FlowsView
    from kavka.spark.queries.flow_progress import FlowProgress

_EVERY_S = 10.0


class JsonView:
    """Prints a flow as an object when its state changes, every ten seconds while it has news, and at the end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Show nothing yet."""
        self._clock = clock
        self._shown: dict[str, tuple[str, str, float]] = {}
        self._newest: Sequence[FlowProgress] = ()

    def show(self, flows: Sequence[FlowProgress]) -> None:
        """Print what is due."""
        self._newest = flows
        now_s = self._clock()
        for flow in flows:
            state, text, shown_s = self._shown.get(flow.flow, ("", "", 0.0))
            is_due = now_s - shown_s >= _EVERY_S and flow.to_json() != text
            if flow.state != state or is_due:
                self._print(flow, now_s)

    def print_message(self, message: str) -> None:
        """Leave it out: it says what the objects say, or what the failure of the command does."""

    def close(self) -> None:
        """Print what was not printed yet."""
        for flow in self._newest:
            if flow.to_json() != self._shown.get(flow.flow, ("", "", 0.0))[1]:
                self._print(flow, self._clock())

    def _print(self, flow: FlowProgress, now_s: float) -> None:
        self._shown[flow.flow] = (flow.state, flow.to_json(), now_s)
        print_rows(FLOW, [flow_row(flow)])


@contextmanager
def open_run_view(*, as_json: bool) -> Iterator[FlowsView]:
    """Open the view of a run's flows on standard output."""
    from kavka.pipelines.view import open_flows_view

    if not as_json:
        with open_flows_view() as view:
            yield view
        return
    json_view = JsonView()
    try:
        yield json_view
    finally:
        json_view.close()
