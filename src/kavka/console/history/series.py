"""The series that are kept, their aggregates and units, the tiers of the file, and values on a grid of times. Pure."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from kavka.console.sentences import Sentence, say

Aggregate = Literal["mean", "max", "min"]


class Metric(NamedTuple):
    """A metric that a subject has; `unit` is records, seconds, bytes, records/s, share or nothing."""

    name: str
    label: Sentence
    unit: str
    aggregate: Aggregate
    """The value that a longer step keeps of the samples in it."""


METRICS: Final[Mapping[str, tuple[Metric, ...]]] = {
    "cluster": (
        Metric("records_in", say("Records written"), "records/s", "mean"),
        Metric("records_out", say("Records read by groups"), "records/s", "mean"),
        Metric("under_replicated", say("Under-replicated partitions"), "partitions", "max"),
        Metric("offline", say("Offline partitions"), "partitions", "max"),
        Metric("brokers", say("Live brokers"), "brokers", "min"),
        Metric("size", say("Stored"), "bytes", "max"),
        Metric("usable", say("Free on the fullest broker"), "bytes", "min"),
    ),
    "broker": (
        Metric("records_in", say("Records written to leaders"), "records/s", "mean"),
        Metric("size", say("Stored"), "bytes", "max"),
        Metric("disk_used", say("Disk used"), "share", "max"),
    ),
    "topic": (
        Metric("records_in", say("Records written"), "records/s", "mean"),
        Metric("records_out", say("Records read by groups"), "records/s", "mean"),
        Metric("size", say("Size"), "bytes", "max"),
    ),
    "group": (
        Metric("lag_seconds", say("Lag in time"), "seconds", "max"),
        Metric("lag_records", say("Lag in records"), "records", "max"),
        Metric("records_out", say("Records read"), "records/s", "mean"),
    ),
}
"""The metrics of each kind of subject."""

KINDS: Final = tuple(METRICS)
_BY_NAME: Final = {(kind, m.name): m for kind, found in METRICS.items() for m in found}


TOPIC_OF_GROUP: Final = "topic of group"
"""The kind of the series that have the lag of a group in one topic, for those who see some of its topics."""


def topic_of_group(topic: str, group: str) -> Key:
    """Return the series of the lag in records of a group in a topic; a topic's name has no slash."""
    return Key(TOPIC_OF_GROUP, f"{topic}/{group}", "lag_records")


class Key(NamedTuple):
    """A series; the name of the cluster itself is empty."""

    kind: str
    name: str
    metric: str


def aggregate_of(key: Key) -> Aggregate:
    """Return what a longer step keeps of a series; `max` for one of a later release."""
    found = _BY_NAME.get((key.kind, key.metric))
    return "max" if found is None else found.aggregate


class Tier(NamedTuple):
    """A resolution, and how long it is kept."""

    number: int
    step_s: int
    kept_s: int


DAY_S: Final = 86_400
RAW: Final = Tier(0, 10, 6 * 3600)
"""Samples as they were taken; the times are rounded down to ten seconds."""
MINUTES: Final = Tier(1, 60, 3 * DAY_S)
TENS: Final = Tier(2, 600, 30 * DAY_S)
TIERS: Final = (RAW, MINUTES, TENS)

_MOST_POINTS: Final = 1000


def tier_for(span_s: int) -> tuple[Tier, int]:
    """Return the finest tier that reaches back so far, and the seconds between two points of a chart."""
    tier = next((one for one in TIERS if span_s <= one.kept_s), TENS)
    return tier, max(1, -(-span_s // (tier.step_s * _MOST_POINTS))) * tier.step_s


def combined(values: Iterable[float], aggregate: Aggregate) -> float:
    """Return one value for those of a step; NaN where all are."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return math.nan
    if aggregate == "mean":
        return math.fsum(known) / len(known)
    return max(known) if aggregate == "max" else min(known)


def with_gaps(
    points: Iterable[tuple[int, float]],
    from_s: int,
    until_s: int,
    step_s: int,
    longest_s: int,
    how: Aggregate,
) -> tuple[list[int], list[float | None]]:
    """Return the times of a chart, and a value for each, None in a gap.

    Points of one step become one. Two that are more than `longest_s` apart have a gap between them; so have the edges.
    """  # fmt: skip
    found: dict[int, list[float]] = {}
    for at_s, value in points:
        if not math.isnan(value):
            found.setdefault(at_s // step_s * step_s, []).append(value)
    times: list[int] = [from_s]
    values: list[float | None] = [None]
    before = None
    for at_s, together in sorted(found.items()):
        at_s = max(at_s, from_s)
        if before is not None and at_s - before > longest_s:
            times.append(before + step_s)
            values.append(None)
        if at_s == times[-1]:
            times.pop()
            values.pop()
        times.append(at_s)
        values.append(combined(together, how))
        before = at_s
    if until_s > times[-1]:
        times.append(until_s)
        values.append(None)
    return times, values


PAGE: Final = 256
"""Series that share a row of the file."""


def pages_of(values: Mapping[int, float]) -> dict[int, array[float]]:
    """Return the values of series, by number, in the rows of the file that hold them."""
    pages: dict[int, array[float]] = {}
    for number, value in values.items():
        page, place = divmod(number, PAGE)
        if page not in pages:
            pages[page] = array("f", [math.nan]) * PAGE
        pages[page][place] = _in_float32(value)
    return pages


_LARGEST: Final = 3.4e38


def _in_float32(value: float) -> float:
    return max(-_LARGEST, min(value, _LARGEST)) if math.isfinite(value) else math.nan


def merged(rows: Sequence[array[float]], aggregates: Sequence[Aggregate]) -> array[float]:
    """Return one row for several of a page; `aggregates` are those of its places."""
    return array(
        "f", [combined(column, how) for column, how in zip(zip(*rows, strict=True), aggregates, strict=True)]
    )  # fmt: skip
