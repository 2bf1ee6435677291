"""Statistics of a collector: a line on standard error at an interval, and families of metrics."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from kavka.metrics import process
from kavka.metrics.families import Family, counter, gauge, labelled
from kavka.values import field, mutable


@mutable
class Statistics:
    """Counts since the start, and gauges of the running collector."""

    records: int = 0
    bytes: int = 0
    errors: int = 0
    """Events that could not be parsed, pages that could not be fetched."""
    transactions: int = 0
    retries: int = 0
    gauges: dict[str, float] = field(factory=dict)
    states: dict[str, int] = field(factory=dict)
    """Number of files in each state."""

    def line(self, before: tuple[int, float], now_s: float) -> str:
        """Return the line, with the rate since `before`, a number of records and its time."""
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
            ("records", "Committed records.", self.records),
            ("bytes", "Bytes of values of committed records.", self.bytes),
            ("errors", "Events that were not parsed, and pages not fetched.", self.errors),
            ("transactions", "Committed transactions.", self.transactions),
            ("retries", "Aborted transactions, which were retried.", self.retries),
        ):
            yield counter(f"kavka_collect_{name}_total", help, value)
        for name, number in self.gauges.items():
            yield gauge(f"kavka_collect_{name}", f"{name.replace('_', ' ').capitalize()}.", number)
        if self.states:
            samples = [(labelled(state=name), count) for name, count in self.states.items()]
            yield gauge("kavka_collect_files", "Files, by state.", samples)
        yield from process.families()


class Reporter:
    """Prints the line of statistics at an interval."""

    def __init__(self, statistics: Statistics, interval_s: float) -> None:
        """Set the interval; 0 prints a line only at the end."""
        self._statistics = statistics
        self._interval_s = interval_s
        self._last = (0, time.monotonic())
        self._start = self._last

    def is_due(self) -> bool:
        """Return whether the interval is over."""
        return self._interval_s > 0 and time.monotonic() - self._last[1] >= self._interval_s

    def report(self, *, is_last: bool = False) -> None:
        """Print the line if the interval is over; the last one has the rate since the start."""
        now_s = time.monotonic()
        if self.is_due() or is_last:
            before = self._start if is_last else self._last
            print(self._statistics.line(before, now_s), file=sys.stderr, flush=True)
            self._last = (self._statistics.records, now_s)
