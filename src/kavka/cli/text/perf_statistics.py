"""Statistics of the performance tools, and their output lines. Pure: the time is an argument."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

_MEGABYTE: Final = 1024 * 1024
_PERCENTILES: Final = (0.5, 0.95, 0.99, 0.999)
_PERCENTILE_KEYS: Final = ("latency_50_ms", "latency_95_ms", "latency_99_ms", "latency_999_ms")


class ProducerStatistics:
    """Latencies of records: those of the present window, and all."""

    def __init__(
        self,
        start_ms: int,
        reporting_interval_ms: int,
        show: Callable[[ProducerStatistics, int], None],
        label: str = "",
    ) -> None:
        """Begin at `start_ms`; `show` is called with the time when a window is over.

        The label stands before `records`.
        """
        self._start_ms = self._window_start_ms = start_ms
        self._interval_ms = reporting_interval_ms
        self._show = show
        self._label = label
        self._latencies: Counter[int] = Counter()
        self._count = self._bytes = self._total_latency_ms = self._max_latency_ms = 0
        self._window_count = self._window_bytes = 0
        self._window_latency_ms = self._window_max_ms = 0

    def record(self, now_ms: int, latency_ms: int, records: int, size: int) -> None:
        """Count records of `size` bytes together that took `latency_ms`."""
        self._count += records
        self._bytes += size
        self._total_latency_ms += latency_ms * records
        self._max_latency_ms = max(self._max_latency_ms, latency_ms)
        self._latencies[latency_ms] += records
        self._window_count += records
        self._window_bytes += size
        self._window_latency_ms += latency_ms * records
        self._window_max_ms = max(self._window_max_ms, latency_ms)
        if now_ms - self._window_start_ms >= self._interval_ms:
            self._show(self, now_ms)
            self._window_start_ms = now_ms
            self._clear_window()

    def window_object(self, now_ms: int) -> dict[str, object]:
        """Return the present window for `--json`."""
        elapsed_ms = max(now_ms - self._window_start_ms, 1)
        count = self._window_count
        return {
            "kind": "window",
            "records": count,
            "records_per_second": 1000 * count / elapsed_ms,
            "megabytes_per_second": 1000 * self._window_bytes / elapsed_ms / _MEGABYTE,
            "latency_avg_ms": self._window_latency_ms / max(count, 1),
            "latency_max_ms": float(self._window_max_ms),
            **dict.fromkeys(_PERCENTILE_KEYS),
        }

    def total_object(self, now_ms: int, kind: str) -> dict[str, object]:
        """Return everything for `--json`."""
        elapsed_ms = max(now_ms - self._start_ms, 1)
        at = (self._percentile(part) for part in _PERCENTILES)
        return {
            "kind": kind,
            "records": self._count,
            "records_per_second": 1000 * self._count / elapsed_ms,
            "megabytes_per_second": 1000 * self._bytes / elapsed_ms / _MEGABYTE,
            "latency_avg_ms": self._total_latency_ms / max(self._count, 1),
            "latency_max_ms": float(self._max_latency_ms),
            **dict(zip(_PERCENTILE_KEYS, at, strict=True)),
        }

    def window_line(self, now_ms: int) -> str:
        """Return the line of the present window."""
        elapsed_ms = max(now_ms - self._window_start_ms, 1)
        count = self._window_count
        return (
            f"{count}{self._label} records sent, {1000 * count / elapsed_ms:.1f} records/sec "
            f"({1000 * self._window_bytes / elapsed_ms / _MEGABYTE:.2f} MB/sec), "
            f"{self._window_latency_ms / max(count, 1):.1f} ms avg latency, "
            f"{float(self._window_max_ms):.1f} ms max latency."
        )

    def total_line(self, now_ms: int) -> str:
        """Return the last line."""
        elapsed_ms = max(now_ms - self._start_ms, 1)
        middle, late, later, latest = (self._percentile(part) for part in _PERCENTILES)
        return (
            f"{self._count}{self._label} records sent, {1000 * self._count / elapsed_ms:.1f} records/sec "
            f"({1000 * self._bytes / elapsed_ms / _MEGABYTE:.2f} MB/sec), "
            f"{self._total_latency_ms / max(self._count, 1):.2f} ms avg latency, "
            f"{float(self._max_latency_ms):.2f} ms max latency, "
            f"{middle} ms 50th, {late} ms 95th, {later} ms 99th, {latest} ms 99.9th."
        )

    def values(self, now_ms: int) -> dict[str, float]:
        """Return what was counted under the names of Kafka's producer metrics."""
        elapsed_s = max(now_ms - self._start_ms, 1) / 1000
        return {
            "record-send-total": float(self._count),
            "record-send-rate": self._count / elapsed_s,
            "byte-total": float(self._bytes),
            "byte-rate": self._bytes / elapsed_s,
            "record-latency-avg": self._total_latency_ms / max(self._count, 1),
            "record-latency-max": float(self._max_latency_ms),
        }

    def _clear_window(self) -> None:
        self._window_count = self._window_bytes = 0
        self._window_latency_ms = self._window_max_ms = 0

    def _percentile(self, part: float) -> int:
        """Return the latency at the place `part` of all in ascending order."""
        place = int(part * self._count)
        latency_ms = 0
        for latency_ms in sorted(self._latencies):
            place -= self._latencies[latency_ms]
            if place < 0:
                break
        return latency_ms


def rates(size: int, records: int, elapsed_ms: int) -> tuple[float, float]:
    """Return megabytes and records per second; 0 where no time has passed."""
    if elapsed_ms <= 0:
        return 0.0, 0.0
    return size / _MEGABYTE * 1000 / elapsed_ms, records * 1000 / elapsed_ms


def consumer_object(
    size: int, records: int, new_size: int, new_records: int, elapsed_ms: int, join_ms: int
) -> dict[str, object]:
    """Return for `--json` what `consumer_columns` returns as text."""
    megabytes_s, records_s = rates(new_size, new_records, elapsed_ms)
    fetch_ms = elapsed_ms - join_ms
    fetch_megabytes_s, fetch_records_s = rates(new_size, new_records, fetch_ms)
    return {
        "megabytes": size / _MEGABYTE,
        "megabytes_per_second": megabytes_s,
        "records": records,
        "records_per_second": records_s,
        "rebalance_ms": join_ms,
        "fetch_ms": fetch_ms,
        "fetch_megabytes_per_second": fetch_megabytes_s,
        "fetch_records_per_second": fetch_records_s,
    }


def consumer_columns(
    size: int, records: int, new_size: int, new_records: int, elapsed_ms: int, join_ms: int
) -> str:
    """Return Kafka's columns from data.consumed.in.MB on: totals, and rates of what is new in the elapsed time."""
    megabytes_s, records_s = rates(new_size, new_records, elapsed_ms)
    fetch_ms = elapsed_ms - join_ms
    fetch_megabytes_s, fetch_records_s = rates(new_size, new_records, fetch_ms)
    return (
        f"{size / _MEGABYTE:.4f}, {megabytes_s:.4f}, {records}, {records_s:.4f}, "
        f"{join_ms}, {fetch_ms}, {fetch_megabytes_s:.4f}, {fetch_records_s:.4f}"
    )


def metric_lines(values: dict[str, float]) -> list[str]:
    """Return the table that `--print-metrics` prints."""
    width = max([len(name) for name in values] + [len("Metric Name")])
    rows = [f"{name:<{width}} : {value:.3f}" for name, value in sorted(values.items())]
    return ["", f"{'Metric Name':<{width}}   Value", *rows]
