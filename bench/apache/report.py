"""Medians, ratios and what was to be reached, as a table in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

Samples = dict[str, list[float]]
"""The measured values of each side, `apache` and `kavka`, or of one of them."""


@dataclass(frozen=True)
class Line:
    """One measure of both sides, or of one. `goal` bounds kavka's median divided by Apache Kafka's."""

    name: str
    unit: str
    samples: Samples
    goal: float | None = None
    more_is_better: bool = False
    absolute: float | None = None
    """A bound of kavka's own value, in place of `goal`."""
    not_above_apache: bool = False
    """True if kavka's value must not be above Apache Kafka's either, where it may be zero and a ratio says nothing."""

    @property
    def ratio(self) -> float:
        """The median of kavka divided by Apache Kafka's; NaN where one of them is missing, or the divisor zero."""
        if not self._has_both:
            return float("nan")
        apache = statistics.median(self.samples["apache"])
        return statistics.median(self.samples["kavka"]) / apache if apache else float("nan")

    @property
    def _has_both(self) -> bool:
        return bool(self.samples.get("apache") and self.samples.get("kavka"))

    def verdict(self) -> str:
        """Say which goals are reached, and by how much one is missed; nothing where a side is missing."""
        if not self._has_both:
            return ""
        apache, kavka = (statistics.median(self.samples[side]) for side in ("apache", "kavka"))
        if self.goal is not None and apache == kavka == 0:
            return "below what the tool shows"
        bounds = [] if self.goal is None else [(self.ratio, self.goal, "")]
        if self.absolute is not None:
            bounds = [(kavka, self.absolute, "")]
        if self.not_above_apache:
            bounds.append((kavka, apache, "Apache Kafka's "))
        return ", ".join(self._judged(*bound) for bound in bounds)

    def _judged(self, value: float, bound: float, whose: str) -> str:
        reached = value >= bound if self.more_is_better else value <= bound
        sign = "≥" if self.more_is_better else "≤"
        return f"{'reached' if reached else 'MISSED'} ({sign} {whose}{bound:.3g})"

    def row(self) -> str:
        """Return the line of the table."""
        ratio = None if self.not_above_apache or isnan(self.ratio) else self.ratio
        return row(self.name, self.unit, self.samples, ratio, self.verdict())


class SampledLines:
    """Lines whose samples come one by one, in the order of their first samples."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}

    def add(
        self, name: str, unit: str, value: float, side: str = "kavka", goal: float | None = None
    ) -> None:
        """Keep one sample of a side."""
        line = self._lines.setdefault(name, Line(name, unit, {}, goal))
        line.samples.setdefault(side, []).append(value)

    def __iter__(self) -> Iterator[Line]:
        return iter(self._lines.values())


def table(lines: Iterable[Line], reference: str) -> str:
    """Return all lines as a table in Markdown; `reference` names what kavka is compared with, "" nothing."""
    if not reference:
        return lone_table({"name": line.name, "unit": line.unit, **line.samples} for line in lines)
    return "\n".join([*heading(reference), *(line.row() for line in lines)])


def lone_table(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return lines of kavka alone as a table in Markdown."""
    rows = [f"| {line['name']} | {line['unit']} | {_shown(line['kavka'])} |" for line in lines]
    return "\n".join(["| what | unit | kavka |", "|---|---|--:|", *rows])


def heading(reference: str) -> list[str]:
    """Return the two lines over the rows of a table."""
    return [
        f"| what | unit | {reference} | kavka | kavka ÷ {reference} | goal |",
        "|---|---|--:|--:|--:|---|",
    ]


def row(
    name: str,
    unit: str,
    samples: Mapping[str, Sequence[float]],
    ratio: float | None,
    verdict: str,
) -> str:
    """Return a row of a table; without a `ratio` where it says nothing, and a side that was not measured."""
    apache, kavka = (_shown(samples.get(side, ())) for side in ("apache", "kavka"))
    shown = "-" if ratio is None else f"{ratio:.2f}"
    return f"| {name} | {unit} | {apache} | {kavka} | {shown} | {verdict} |"


def between_table(between: Iterable[Mapping[str, Any]], reference: str) -> str:
    """Return ratios of one line to another, beside those that LinkedIn published in 2014, as a table in Markdown."""
    rows = [f"| one line ÷ another | LinkedIn 2014 | {reference} | kavka | goal |"]
    rows.append("|---|--:|--:|--:|---|")
    for each in between:
        bound, apache, kavka = (float(each[side]) for side in ("linkedin", "apache", "kavka"))
        verdict = f"{'reached' if kavka >= bound else 'MISSED'} (≥ {bound:.3g})"
        rows.append(f"| {each['name']} | {bound:.2f} | {apache:.2f} | {kavka:.2f} | {verdict} |")
    return "\n".join(rows)


def floor_table(floors: Iterable[Mapping[str, Any]], reference: str) -> str:
    """Return processor time beside that of a loop in C with the same system calls, as a table in Markdown."""
    rows = [f"| what | unit | C loop | {reference} | kavka | {reference} ÷ loop | kavka ÷ loop |"]
    rows.append("|---|---|--:|--:|--:|--:|--:|")
    for each in floors:
        loop, apache, kavka = (statistics.median(each[k]) for k in ("loop", "apache", "kavka"))
        shown = " | ".join(_shown(each[key]) for key in ("loop", "apache", "kavka"))
        ratios = f"{apache / loop:.2f} | {kavka / loop:.2f}"
        rows.append(f"| {each['name']} | {each['unit']} | {shown} | {ratios} |")
    return "\n".join(rows)


def as_json(lines: Iterable[Line]) -> list[Mapping[str, object]]:
    """Return all lines with every sample."""
    return [
        {
            "name": line.name,
            "unit": line.unit,
            **line.samples,
            "ratio": None if isnan(line.ratio) else line.ratio,
            "verdict": line.verdict(),
        }
        for line in lines
    ]


def _shown(samples: Sequence[float]) -> str:
    """Return the median, and the range where there is more than one sample."""
    if not samples:
        return "-"
    median = statistics.median(samples)
    if len(samples) < 2:
        return _number(median)
    return f"{_number(median)} ({_number(min(samples))}-{_number(max(samples))})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
