"""Charts of the history. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from kavka.console.formats import count_text, rate_text, seconds_text, size_text
from kavka.console.history.groups import GroupFigures
from kavka.console.history.recorder import Chart
from kavka.console.sentences import NOTHING, Sentence, say


@dataclass(frozen=True, slots=True)
class ChartView:
    """One metric over the range; values are null in gaps, times are seconds since 1970."""

    metric: str
    label: Sentence
    unit: str
    """records, seconds, bytes, records/s, share, brokers or partitions."""
    aggregate: str
    """The value that a point has of the samples in its step: mean, max or min."""
    times: list[int]
    values: list[float | None]
    latest: float | None
    lowest: float
    highest: float
    summary: Sentence
    """The chart in a sentence."""


@dataclass(frozen=True, slots=True)
class HistoryView:
    """The history of a subject."""

    kind: str
    name: str
    range: str
    ranges: list[str]
    charts: list[ChartView]
    finding: Sentence
    """The verdict on a group's samples: it is stuck or falls behind; empty where neither is so."""
    limits: Sentence
    """The part that the charts lack because the user does not see all topics of a group."""
    note: Sentence
    """The reason why nothing is kept at this time."""
    location: str
    """The page of the subject."""


def chart_view(chart: Chart) -> ChartView:
    """Return a chart that has at least one point."""
    metric = chart.metric
    known = [value for value in chart.values if value is not None]
    latest, lowest, highest = known[-1], min(known), max(known)
    return ChartView(
        metric=metric.name,
        label=metric.label,
        unit=metric.unit,
        aggregate=metric.aggregate,
        times=chart.times,
        values=chart.values,
        latest=latest,
        lowest=lowest,
        highest=highest,
        summary=say(
            "{metric}: {latest} now, from {lowest} to {highest}",
            metric=metric.label,
            latest=amount(latest, metric.unit),
            lowest=amount(lowest, metric.unit),
            highest=amount(highest, metric.unit),
        ),
    )


def amount(value: float | None, unit: str) -> str:
    """Return a value in its unit, as people read it."""
    if value is None:
        return count_text(None)
    if unit == "seconds":
        return seconds_text(value)
    if unit == "bytes":
        return size_text(round(value))
    if unit == "records/s":
        return rate_text(value)
    return f"{value:.1%}" if unit == "share" else count_text(round(value))


def finding_of(group: GroupFigures | None, stuck_from_s: float) -> Sentence:
    """Return what is wrong with a group, empty where nothing is."""
    if group is None:
        return NOTHING
    if group.stuck_s >= stuck_from_s:
        return say(
            "Stuck: nothing was committed in {stuck_partition} for {stuck_s}, and records wait.",
            stuck_partition=group.stuck_partition,
            stuck_s=seconds_text(group.stuck_s),
        )
    if group.is_falling_behind:
        return say(
            "Falling behind: the lag grows by {growth_per_s}.",
            growth_per_s=rate_text(group.growth_per_s),
        )
    return NOTHING


def location_of(kind: str, name: str) -> str:
    """Return the page of a subject."""
    if kind == "group":
        return f"/group?{urlencode({'id': name})}"
    if kind in ("topic", "broker"):
        return f"/{kind}s/{quote(name, safe='')}"
    return "/"
