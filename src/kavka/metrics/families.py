"""Families of samples, and Prometheus' text format (version 0.0.4) of them.

A sample is what follows the family's name on its line, and the value: `{topic="t"}`, 17. A summary's other lines have
their suffix in front: `_count{request="Fetch"}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from kavka.metrics.timings import QUANTILES, Timings, merged, quantiles

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[str, float]


class Kind(Enum):
    """The type of a family."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"


class Family(NamedTuple):
    """All samples of one name."""

    name: str
    kind: Kind
    help: str
    samples: Iterable[Sample]


def labelled(**labels: object) -> str:
    """Return labels as they stand behind a name."""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: object) -> str:
    text = str(value)
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text


def gauge(name: str, help: str, value: float | Iterable[Sample]) -> Family:
    """Return a family of gauges; a number is its one sample, without labels."""
    return Family(name, Kind.GAUGE, help, _samples(value))


def counter(name: str, help: str, value: float | Iterable[Sample]) -> Family:
    """Return a family of counters; the name must end in `_total`."""
    assert name.endswith("_total"), name
    return Family(name, Kind.COUNTER, help, _samples(value))


def _samples(value: float | Iterable[Sample]) -> Iterable[Sample]:
    return (("", value),) if isinstance(value, int | float) else value


def summary(name: str, help: str, samples: Iterable[Sample]) -> Family:
    """Return a family of summaries; the samples are those of `summarized`."""
    return Family(name, Kind.SUMMARY, help, samples)


def summarized(
    timings: Sequence[Timings], no_time: Timings | None = None, **labels: object
) -> Iterator[Sample]:
    """Yield the samples of one summary over several timings; all of `no_time` count as 0 ms."""
    zeros, count = (0, 0) if no_time is None else (sum(no_time.counts()), no_time.count)
    yield from with_zeros(timings, zeros, count + sum(each.count for each in timings), **labels)


def with_zeros(
    timings: Sequence[Timings], zeros: int, count: int, **labels: object
) -> Iterator[Sample]:
    """Yield the samples of a summary of `count` durations, of which `zeros` of the last minute or two are 0 ms."""
    for quantile, ms in zip(QUANTILES, quantiles(merged(timings, zeros)), strict=True):
        yield labelled(**labels, quantile=f"{quantile:g}"), ms
    shown = labelled(**labels) if labels else ""
    yield f"_sum{shown}", sum(each.sum_ms for each in timings)
    yield f"_count{shown}", count


def lines(family: Family) -> Iterator[str]:
    """Yield the lines of a family, each with its end; a family without samples has none."""
    name = family.name
    head = f"# HELP {name} {_escaped_help(family.help)}\n# TYPE {name} {family.kind.value}\n"
    for labels, value in family.samples:
        if head:
            yield head
            head = ""
        yield f"{name}{labels} {value}\n"


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
