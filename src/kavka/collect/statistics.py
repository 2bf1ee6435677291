"""Counts of a collector: a line on standard error at an interval, and families of metrics."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from kavka.metrics import process
from kavka.metrics.families import Family, counter, gauge, labelled
from kavka.values import field, mutable


@mutable
class Statistics:
    """Counts since the start; `gauges` is set by what is being collected."""

    records: int = 0
    bytes: int = 0
    errors: int = 0
    """Events that a parser could not read, pages that could not be fetched."""
    transactions: int = 0
    retries: int = 0
    gauges: dict[str, float] = field(factory=dict)
    states: dict[str, int] = field(factory=dict)
    """Number of files in each state."""

    def line(self, before: tuple[int, float], now_s: float) -> str:
        """Return the facts, with the rate since `before`, a count of records and its time."""
        rate = (self.records - before[0]) / max(now_s - before[1], 1e-9)
        facts = {
            "records": self.records,
            "records_per_s": round(rate),
            "bytes": self.bytes,
            "errors": self.errors,
            "transactions": self.transactions,
            "retries": self.retries,
            **{name: round(value, 3) for name, value in self.gauges.items()},
            **self.states,
        }
        return "collected " + " ".join(f"{name}={value}" for name, value in facts.items())

    def families(self) -> Iterator[Family]:
        """Yield the metrics of a page for Prometheus."""
        for name, help, value in (
            ("records", "Records that were committed.", self.records),
            ("bytes", "Bytes of values of these records.", self.bytes),
            ("errors", "Events that no parser could read, and pages not fetched.", self.errors),
            ("transactions", "Transactions that were committed.", self.transactions),
            ("retries", "Transactions that were aborted and sent again.", self.retries),
        ):
            yield counter(f"kavka_collect_{name}_total", help, value)
        for name, number in self.gauges.items():
            yield gauge(f"kavka_collect_{name}", f"{name.replace('_', ' ').capitalize()}.", number)
        if self.states:
            samples = [(labelled(state=name), count) for name, count in self.states.items()]
            yield gauge("kavka_collect_files", "Files, by what is known of them.", samples)
        yield from process.families()


class Reporter:
    """Prints the line of statistics when its interval is over."""

    def __init__(self, statistics: Statistics, interval_s: float) -> None:
        """Take the interval; 0 prints a line only at the end."""
        self._statistics = statistics
        self._interval_s = interval_s
        self._last = (0, time.monotonic())
        self._start = self._last

    def is_due(self) -> bool:
        """Return whether it is time."""
        return self._interval_s > 0 and time.monotonic() - self._last[1] >= self._interval_s

    def report(self, *, is_last: bool = False) -> None:
        """Print the line if it is time, or if it is the last one, which has the rate since the start."""
        now_s = time.monotonic()
        if self.is_due() or is_last:
            before = self._start if is_last else self._last
            print(self._statistics.line(before, now_s), file=sys.stderr, flush=True)
            self._last = (self._statistics.records, now_s)
