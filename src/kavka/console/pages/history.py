"""The history of the cluster, a broker, a topic or a group, as charts."""

from __future__ import annotations

from typing import Final

from kavka.console.failures import bad_request
from kavka.console.history.charts import HistoryView, chart_view, finding_of, location_of
from kavka.console.history.series import DAY_S, KINDS, METRICS
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sentences import say
from kavka.console.subject import Page, Services

RANGES: Final = {
    "1h": 3600,
    "6h": 6 * 3600,
    "24h": DAY_S,
    "3d": 3 * DAY_S,
    "7d": 7 * DAY_S,
    "30d": 30 * DAY_S,
}
_STUCK_S: Final = 600.0


async def _load(services: Services, arguments: Arguments) -> HistoryView:
    kind, name = arguments.text("kind"), arguments.text("name")
    if (kind == "cluster") == bool(name):
        raise bad_request(
            say("The kind {kind} has no name.", kind=kind)
            if name
            else say("The kind {kind} has a name.", kind=kind)
        )
    chosen = arguments.text("range")
    history = services.history
    charts = await history.charts(kind, name, METRICS[kind], RANGES[chosen])
    group = history.latest.groups.get(name) if history.latest and kind == "group" else None
    return HistoryView(
        kind=kind,
        name=name,
        range=chosen,
        ranges=list(RANGES),
        charts=[chart_view(chart) for chart in charts],
        finding=finding_of(group, _STUCK_S),
        limits=await history.limits(kind, name),
        note=history.note,
        location=location_of(kind, name),
    )


HISTORY = Page(
    path="/history",
    summary="The history of the cluster, a broker, a topic or a group, of 30 days at most.",
    template="history.html",
    view=HistoryView,
    load=_load,
    parameters=(
        Parameter("kind", "choice", "The kind of the subject.", "cluster", KINDS),
        Parameter("name", "text", "Its name or id; empty for the cluster."),
        Parameter("range", "choice", "How far back.", "6h", tuple(RANGES)),
    ),
)
PAGES = (HISTORY,)
ACTIONS = ()
