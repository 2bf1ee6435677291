"""Plots as SVG inside a page: an area over time, bars, a histogram. Pure; colours come from the page's style sheet.

Each function returns an `svg` element whose texts are escaped. Lengths are units of its view box.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

WIDTH = 920
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 12, 58
_HEIGHT = 300
_TICKS = 5
_TIME_TICKS = 8
_MAX_POINTS = 480
_BAR, _BAR_GAP, _LABEL = 18, 8, 300
_LABEL_CHARACTERS = 42
_MINUTE_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080, 43200)


@dataclass(frozen=True, slots=True)
class Series:
    """Counts by minute, with the name in the legend and the class of its colour."""

    name: str
    style: str
    counts: dict[int, int]
    """By minutes since 1970; those without a count are 0."""


def nice_ticks(maximum: float, ticks: int = _TICKS) -> list[int]:
    """Return whole numbers from 0 to `maximum` or above, in equal steps of 1, 2 or 5 times a power of ten."""
    rough = max(maximum / ticks, 1)
    power = 10 ** math.floor(math.log10(rough))
    step = next(int(power * digit) for digit in (1, 2, 5, 10) if power * digit >= rough)
    return [step * index for index in range(max(math.ceil(maximum / step), 1) + 1)]


def minute_step(minutes: int, ticks: int) -> int:
    """Return the least usual step in minutes that divides a duration into no more than so many parts."""
    fitting = (step for step in _MINUTE_STEPS if minutes / step <= ticks)
    return next(fitting, math.ceil(minutes / ticks))


def by_time(series: Sequence[Series], unit: str) -> str:
    """Return an area of the first series over time (UTC), and lines of the others: counts per minute or longer step."""
    minutes = [minute for curve in series for minute in curve.counts]
    if not minutes:
        return _nothing()
    step = minute_step(max(minutes) - min(minutes) + 1, _MAX_POINTS)
    first, last = min(minutes) // step * step, max(minutes) // step * step
    steps = range(first, last + step, step)
    sums = [_sums(curve.counts, step) for curve in series]
    ticks = nice_ticks(max(max(curve.values()) for curve in sums if curve))

    def x(minute: float) -> float:
        return _LEFT + (minute - first) / max(last - first, 1) * (WIDTH - _LEFT - _RIGHT)

    def y(count: float) -> float:
        return _HEIGHT - _BOTTOM - count / ticks[-1] * (_HEIGHT - _BOTTOM - _TOP)

    title = f"{unit} per {_duration(step)}"
    parts = _rows(ticks, y) + _time_axis(first, last, x)
    for number, (curve, counts) in enumerate(zip(series, sums, strict=True)):
        points = " ".join(f"{x(at):.1f},{y(counts.get(at, 0)):.1f}" for at in steps)
        if number == 0:
            ends = f"{x(first):.1f},{y(0):.1f} {points} {x(last):.1f},{y(0):.1f}"
            parts.append(f'<polygon class="area {curve.style}" points="{ends}"/>')
        parts.append(f'<polyline class="line {curve.style}" points="{points}"/>')
    parts.append(_axis_title(title))
    parts.append(
        _text(_LEFT + (WIDTH - _LEFT - _RIGHT) / 2, _HEIGHT - 6, "time of the requests, UTC")
    )
    return _svg(_HEIGHT, f"{title}, over time", parts) + _legend(series)


def _sums(counts: dict[int, int], step: int) -> dict[int, int]:
    sums: dict[int, int] = {}
    for minute, count in counts.items():
        sums[minute // step * step] = sums.get(minute // step * step, 0) + count
    return sums


def _duration(minutes: int) -> str:
    if minutes == 1:
        return "minute"
    if minutes % 1440 == 0:
        return "day" if minutes == 1440 else f"{minutes // 1440} days"
    if minutes % 60 == 0:
        return "hour" if minutes == 60 else f"{minutes // 60} hours"
    return f"{minutes} minutes"


def _time_axis(first: int, last: int, x: Callable[[float], float]) -> list[str]:
    """Return labels of a time axis: the time of day, and the date below where it changes."""
    step = minute_step(max(last - first, 1), _TIME_TICKS)
    parts, shown = [], ""
    for minute in range(-(-first // step) * step, last + 1, step):
        time = datetime.fromtimestamp(minute * 60, UTC)
        x_position, day = x(minute), f"{time.day} {time:%b %Y}"
        ends = f'x1="{x_position:.1f}" x2="{x_position:.1f}" y1="{_HEIGHT - _BOTTOM}" y2="{_HEIGHT - _BOTTOM + 5}"'
        parts.append(f'<line class="tick" {ends}/>')
        if step < 1440:
            parts.append(_text(x_position, _HEIGHT - _BOTTOM + 18, f"{time:%H:%M}"))
        if day != shown:
            parts.append(_text(x_position, _HEIGHT - _BOTTOM + 34, day))
        shown = day
    return parts


def bars(rows: Sequence[tuple[str, int]], unit: str) -> str:
    """Return a horizontal bar for each row, with its label before and its number behind it."""
    if not rows:
        return _nothing()
    ticks = nice_ticks(max(count for _, count in rows))
    height = _TOP + len(rows) * (_BAR + _BAR_GAP) + 44
    width = WIDTH - _LABEL - 90
    bottom = height - 40
    parts = []
    for tick in ticks:
        x_position = _LABEL + tick / ticks[-1] * width
        parts.append(
            f'<line class="grid" x1="{x_position:.1f}" x2="{x_position:.1f}" y1="{_TOP}" y2="{bottom}"/>'
        )
        parts.append(_text(x_position, bottom + 16, f"{tick:,}"))
    for number, (label, count) in enumerate(rows):
        top = _TOP + number * (_BAR + _BAR_GAP) + _BAR_GAP / 2
        length = count / ticks[-1] * width
        middle = top + _BAR / 2 + 4
        short = label if len(label) <= _LABEL_CHARACTERS else label[: _LABEL_CHARACTERS - 1] + "…"
        parts.append(
            f"<g><title>{escape(label)}: {count:,}</title>"
            f'<rect class="bar" x="{_LABEL}" y="{top:.1f}" width="{length:.1f}" height="{_BAR}" rx="2"/>'
            + _text(_LABEL - 8, middle, short, "end")
            + _text(_LABEL + length + 6, middle, f"{count:,}", "start")
            + "</g>"
        )
    parts.append(_text(_LABEL + width / 2, height - 6, unit))
    return _svg(height, unit, parts)


def histogram(bins: Sequence[tuple[str, int]], x_title: str, y_title: str) -> str:
    """Return a vertical bar for each bin, labelled below."""
    if not any(count for _, count in bins):
        return _nothing()
    ticks = nice_ticks(max(count for _, count in bins))
    width = (WIDTH - _LEFT - _RIGHT) / len(bins)

    def y(count: float) -> float:
        return _HEIGHT - _BOTTOM - count / ticks[-1] * (_HEIGHT - _BOTTOM - _TOP)

    parts = _rows(ticks, y)
    for number, (label, count) in enumerate(bins):
        left, middle = _LEFT + number * width, _LEFT + (number + 0.5) * width
        parts.append(
            f"<g><title>{escape(label)}: {count:,}</title>"
            f'<rect class="bar" x="{left + width * 0.1:.1f}" y="{y(count):.1f}" width="{width * 0.8:.1f}" '
            f'height="{y(0) - y(count):.1f}" rx="2"/></g>'
        )
        parts.append(_text(middle, _HEIGHT - _BOTTOM + 18, label))
    parts.append(_axis_title(y_title))
    parts.append(_text(_LEFT + (WIDTH - _LEFT - _RIGHT) / 2, _HEIGHT - 14, x_title))
    return _svg(_HEIGHT, f"{y_title} by {x_title}", parts)


def _rows(ticks: Sequence[int], y: Callable[[float], float]) -> list[str]:
    """Return the lines and labels of a vertical axis."""
    parts = []
    for tick in ticks:
        y_position = y(tick)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y_position:.1f}" y2="{y_position:.1f}"/>'
        )
        parts.append(_text(_LEFT - 8, y_position + 4, f"{tick:,}", "end"))
    return parts


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _axis_title(text: str) -> str:
    """Return the title of a vertical axis."""
    middle = _TOP + (_HEIGHT - _BOTTOM - _TOP) / 2
    position = f'x="14" y="{middle:.1f}" transform="rotate(-90 14 {middle:.1f})"'
    return f'<text {position} text-anchor="middle">{escape(text)}</text>'


def _svg(height: float, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(label, quote=True)}">'
        + "".join(parts)
        + "</svg>"
    )


def _legend(series: Sequence[Series]) -> str:
    items = "".join(f'<span><i class="{one.style}"></i>{escape(one.name)}</span>' for one in series)
    return f'<p class="legend">{items}</p>'


def _nothing() -> str:
    return '<p class="none">nothing to show</p>'
