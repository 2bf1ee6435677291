"""The audit: compares numbers that were counted independently of each other. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kavka.demo.replay import Tally


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts at the end, each made independently of the others."""

    lines: int
    """By counting the lines of the source without sending them."""
    records_in_log: int
    """By the offsets of the broker."""
    rows_in_parquet: int
    """By reading the files of the table without Spark."""
    distinct_rows: int
    """Rows of different (partition, offset) in those files."""
    late_rows: int
    """Rows that the pipeline has marked as late."""
    feed_rows: int
    """Rows of those files that belong to the feed."""
    dead_letters: int
    """By reading the quarantine topic."""
    distinct_dead_letters: int
    """Dead letters of different (partition, offset) in their headers."""
    distinct_records: int
    """Different (partition, offset) in the files and the headers of dead letters together."""
    counted_by_minute: int
    """By the sum of the view of minutes."""
    counted_late: int
    """By the sum of the late ones in the view of minutes."""
    counted_by_day: int
    """By the sum of the daily report."""
    counted_in_windows: int
    """By the sum of the page counts, each event in `windows_per_event` windows."""
    windows_per_event: int
    feed_records: int
    """By reading the topic, as the fields below."""
    limits: int
    distinct_limits: int
    """Limits of different client and minute."""
    alerts: int
    distinct_alerts: int
    """Alerts of different visitor and minute."""
    sessions: int
    distinct_sessions: int
    """Sessions of different visitor and start."""


@dataclass(frozen=True, slots=True)
class Check:
    """Two numbers that must be equal, or the second not below the first."""

    description: str
    expected: int
    actual: int
    at_least: bool = False

    @property
    def agrees(self) -> bool:
        """Return whether the numbers agree."""
        return self.actual >= self.expected if self.at_least else self.actual == self.expected

    @property
    def relation(self) -> str:
        """The sign between the numbers."""
        if self.at_least:
            return "<=" if self.agrees else ">"
        return "=" if self.agrees else "!="


def audit(sent: Tally, counted: Counts) -> list[Check]:
    """Return all comparisons; the demo succeeds if all agree."""
    well_formed = sent.sent - sent.malformed
    return [
        Check("at least one record was sent", 1, sent.sent, at_least=True),
        Check("lines to play = records sent", counted.lines, sent.sent),
        Check("records sent = records in the log", sent.sent, counted.records_in_log),
        Check("records in the log = rows in Parquet + dead letters", counted.records_in_log,
              counted.rows_in_parquet + counted.dead_letters),
        Check("well-formed lines sent = rows in Parquet", well_formed, counted.rows_in_parquet),
        Check("rows in Parquet = distinct rows", counted.rows_in_parquet, counted.distinct_rows),
        Check("malformed lines sent = dead letters", sent.malformed, counted.dead_letters),
        Check("dead letters = distinct dead letters", counted.dead_letters, counted.distinct_dead_letters),
        Check("records in the log = distinct records in Parquet and dead letters", counted.records_in_log,
              counted.distinct_records),
        Check("lines sent too late = late rows in Parquet", sent.too_late, counted.late_rows),
        Check("well-formed lines sent = sum of requests by minute", well_formed, counted.counted_by_minute),
        Check("lines sent too late = late ones by minute", sent.too_late, counted.counted_late),
        Check("well-formed lines sent = sum of the daily report", well_formed, counted.counted_by_day),
        Check(f"well-formed lines sent, each in {counted.windows_per_event} windows = sum of page counts",
              well_formed * counted.windows_per_event, counted.counted_in_windows),
        Check("rows in Parquet of people's actions = records in the feed", counted.feed_rows, counted.feed_records),
        Check("clients sent above the limit in a minute = limits", sent.above_limit, counted.limits),
        Check("limits = distinct limits", counted.limits, counted.distinct_limits),
        Check("alerts = distinct alerts", counted.alerts, counted.distinct_alerts),
        Check("sessions = distinct sessions", counted.sessions, counted.distinct_sessions),
    ]  # fmt: skip
