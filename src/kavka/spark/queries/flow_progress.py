"""Progress of flows: what Spark reports of each batch becomes one record a flow, with totals. Pure.

A batch is reported as the JSON of Spark's StreamingQueryProgress. Counts are totals since the start of this process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from kavka.ids import TopicPartition
from kavka.spark.offsets import Offsets, from_json

RUNNING, WAITING, FAILED, STOPPED, DONE = "running", "waiting", "failed", "stopped", "done"
"""States of a flow; `waiting` for its next start after a failure, or for its turn."""
Action = Literal["expect", "expect_or_drop", "expect_or_fail", "quarantine"]
ACTIONS: tuple[Action, ...] = ("expect", "expect_or_drop", "expect_or_fail", "quarantine")
"""Actions of expectations on rows that do not meet them; their observed metrics are named `ACTION:NAME`."""
PASSED_ROWS, FAILED_ROWS = "passed", "failed"
"""Columns of these metrics."""


def unqualified(name: str) -> str:
    """Return the last part of a name such as `spark_catalog.default.events`."""
    return name.rpartition(".")[2].strip("`")


@dataclass(slots=True)
class PartitionLag:
    """The lag of a flow in one partition."""

    records: int
    seconds: float | None


@dataclass(slots=True)
class ExpectationCounts:
    """Rows that an expectation has seen."""

    passed: int = 0
    failed: int = 0


@dataclass(slots=True)
class FlowProgress:
    """The progress of a flow."""

    pipeline: str
    flow: str
    kind: str = "stream"
    """`stream`, or `view` for a materialized view."""
    state: str = WAITING
    batch_id: int = -1
    rows_in: int = 0
    rows_out: int | None = None
    """Rows written; None where the target does not count them, as tables do not."""
    rows_per_second: float = 0.0
    """Rows read in the last batch, by its time."""
    batch_ms: int = 0
    phases_ms: dict[str, int] = field(default_factory=dict)
    """The last batch's time by phase, in Spark's names."""
    lag: dict[str, PartitionLag] = field(default_factory=dict)
    """By `topic-partition`, for flows that read topics."""
    watermark_delay_s: float | None = None
    """Seconds from the watermark to the end of the last batch."""
    late_rows: int = 0
    """Rows dropped because they were behind the watermark."""
    state_rows: int = 0
    state_bytes: int = 0
    expectations: dict[str, ExpectationCounts] = field(default_factory=dict)
    """By `action:name`, such as `expect_or_drop:has a user`."""
    restarts: int = 0
    last_error: str = ""
    updated_ms: int = 0

    @property
    def lag_records(self) -> int:
        """Return the lag of all partitions together."""
        return sum(lag.records for lag in self.lag.values())

    @property
    def failed_rows(self) -> int | None:
        """Return the rows that failed expectations, once for each; None for a flow without expectations."""
        counts = [one.failed for one in self.expectations.values()]
        return sum(counts) if counts else None

    @property
    def lag_seconds(self) -> float | None:
        """Return the longest lag of a partition, None without one that is known."""
        seconds = [lag.seconds for lag in self.lag.values() if lag.seconds is not None]
        return max(seconds, default=None)

    def to_json(self) -> str:
        """Return it as the topic of progress holds it."""
        return json.dumps(asdict(self), separators=(",", ":"))


def progress_from_json(text: str | bytes) -> FlowProgress:
    """Return the progress in a record. Fields that a later release added are left out. Raise ValueError for others."""
    try:
        # Half of a pair of UTF-16, which JSON may have, is no text.
        fields = json.loads(
            json.dumps(json.loads(text), ensure_ascii=False).encode(errors="replace")
        )
        lag = {name: PartitionLag(**one) for name, one in fields.pop("lag", {}).items()}
        counts = fields.pop("expectations", {})
        expectations = {name: ExpectationCounts(**one) for name, one in counts.items()}
        known_fields = {name: fields[name] for name in FlowProgress.__slots__ if name in fields}
        found = FlowProgress(**known_fields, lag=lag, expectations=expectations)
        has_types = _has_types(found)
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no progress of a pipeline: {error}") from error
    if not has_types:
        raise ValueError("no progress of a pipeline: a field is of another type")
    return found


def _has_types(found: FlowProgress) -> bool:
    """Return whether the fields can be shown: any program may write into the topic.

    Raise AttributeError where phases are no object.
    """
    texts = (found.pipeline, found.flow, found.kind, found.state, found.last_error)
    whole = [found.batch_id, found.batch_ms, found.rows_in, found.late_rows, found.restarts]
    whole += [found.state_rows, found.state_bytes, found.updated_ms, *found.phases_ms.values()]
    whole += [] if found.rows_out is None else [found.rows_out]
    numbers: list[object] = [found.rows_per_second]
    optional: list[object] = [found.watermark_delay_s]
    for lag in found.lag.values():
        whole.append(lag.records)
        optional.append(lag.seconds)
    numbers += [one for one in optional if one is not None]
    for counts in found.expectations.values():
        whole += [counts.passed, counts.failed]
    return (
        all(isinstance(one, str) for one in texts)
        and all(type(one) is int for one in whole)
        and all(type(one) in (int, float) for one in numbers)
    )


def expectation_lines(flow: FlowProgress) -> list[str]:
    """Return a line for each expectation, such as `expect_or_drop "has a user": 3 of 90 rows failed`."""
    lines = []
    for metric, counts in flow.expectations.items():
        action, _, name = metric.partition(":")
        rows = counts.passed + counts.failed
        lines.append(f'{action} "{name}": {counts.failed} of {rows} rows failed')
    return lines


class ProgressTable:
    """The progress of all flows of a pipeline, by the short name of each."""

    def __init__(self, pipeline: str) -> None:
        """Make an empty table."""
        self._pipeline = pipeline
        self._flows: dict[str, FlowProgress] = {}
        self._positions: dict[str, list[Offsets]] = {}

    def __iter__(self) -> Iterator[FlowProgress]:
        """Yield the flows in the order in which they were first named."""
        return iter(list(self._flows.values()))

    def of(self, flow: str) -> FlowProgress:
        """Return a flow's progress, which is made if need be."""
        name = unqualified(flow)
        if name not in self._flows:
            self._flows[name] = FlowProgress(self._pipeline, name)
        return self._flows[name]

    def forget(self, flow: str) -> None:
        """Remove a flow."""
        name = unqualified(flow)
        self._flows.pop(name, None)
        self._positions.pop(name, None)

    def positions(self, flow: str) -> list[Offsets]:
        """Return how far a flow has read: for each of its sources the next offsets, for other sources none."""
        return self._positions.get(unqualified(flow), [])

    def waits(self, flow: str, now_ms: int) -> None:
        """Record a flow that starts later, when it is its turn."""
        progress = self.of(flow)
        progress.state, progress.updated_ms = WAITING, now_ms

    def started(self, flow: str, now_ms: int, *, kind: str = "stream") -> None:
        """Record the start of a flow."""
        progress = self.of(flow)
        progress.state, progress.updated_ms = RUNNING, now_ms
        progress.kind = "view" if "view" in (kind, progress.kind) else kind

    def failed(self, flow: str, error: str, now_ms: int, *, restarts: bool) -> None:
        """Record the failure of a flow, and whether it will restart."""
        progress = self.of(flow)
        progress.state, progress.last_error, progress.updated_ms = (
            (WAITING if restarts else FAILED),
            error,
            now_ms,
        )
        progress.restarts += restarts

    def restarted(self, flow: str) -> None:
        """Count a start after a failure."""
        self.of(flow).restarts += 1

    def ended(self, flow: str, state: str, now_ms: int) -> None:
        """Record the end of a flow without an error: `stopped` or `done`."""
        progress = self.of(flow)
        progress.state, progress.updated_ms = state, now_ms

    def refreshed(self, view: str, duration_ms: int, now_ms: int) -> None:
        """Record a refresh of a materialized view."""
        progress = self.of(view)
        progress.kind, progress.batch_id, progress.batch_ms = (
            "view",
            progress.batch_id + 1,
            duration_ms,
        )
        progress.updated_ms = now_ms

    def batch(self, progress: Mapping[str, Any], now_ms: int) -> FlowProgress | None:
        """Record Spark's report of a batch or of an idle query; return None for a query without a name."""
        name = progress.get("name")
        if not name:
            return None
        flow = self.of(name)
        sources = progress.get("sources") or []
        self._positions[unqualified(name)] = [
            _offsets(source.get("endOffset")) for source in sources
        ]
        is_new = progress["batchId"] > flow.batch_id or flow.batch_id < 0
        flow.updated_ms = now_ms
        rows = progress.get("numInputRows", 0)
        if not is_new and not rows:
            flow.rows_per_second = 0.0
            return flow
        if flow.state == WAITING and not flow.restarts:
            flow.state = RUNNING  # the report of its start may not have come
        flow.batch_id = progress["batchId"]
        flow.rows_in += rows
        written = (progress.get("sink") or {}).get("numOutputRows", -1)
        if written >= 0:
            flow.rows_out = (flow.rows_out or 0) + written
        flow.phases_ms = dict(progress.get("durationMs") or {})
        flow.batch_ms = flow.phases_ms.get("triggerExecution", 0)
        flow.rows_per_second = rows * 1000 / flow.batch_ms if flow.batch_ms else 0.0
        _count_expectations(flow, progress.get("observedMetrics") or {})
        operators = progress.get("stateOperators") or []
        flow.late_rows += sum(op.get("numRowsDroppedByWatermark", 0) for op in operators)
        flow.state_rows = sum(op.get("numRowsTotal", 0) for op in operators)
        flow.state_bytes = sum(op.get("memoryUsedBytes", 0) for op in operators)
        watermark = (progress.get("eventTime") or {}).get("watermark")
        flow.watermark_delay_s = _watermark_delay_s(watermark, now_ms)
        return flow

    def lags(self, flow: str, by_partition: Mapping[TopicPartition, PartitionLag]) -> None:
        """Record the lag of a flow by partition, unless it was removed while the brokers were queried."""
        progress = self._flows.get(unqualified(flow))
        if progress is not None:
            progress.lag = {str(at): lag for at, lag in sorted(by_partition.items())}


def _count_expectations(flow: FlowProgress, observed: Mapping[str, Any]) -> None:
    """Add the observed metrics of a batch; those that are not of expectations are the user's own."""
    for metric, counts in observed.items():
        if metric.partition(":")[0] in ACTIONS and isinstance(counts, dict):
            total = flow.expectations.setdefault(metric, ExpectationCounts())
            total.passed += counts.get(PASSED_ROWS) or 0
            total.failed += counts.get(FAILED_ROWS) or 0


def _watermark_delay_s(watermark: str | None, now_ms: int) -> float | None:
    if not watermark:
        return None
    at_ms = datetime.fromisoformat(watermark).timestamp() * 1000
    # Spark's watermark is 1970 until the first batch with rows is over.
    return None if at_ms <= 0 else max(now_ms - at_ms, 0) / 1000


def _offsets(report: Any) -> Offsets:
    value = json.loads(report) if isinstance(report, str) else report
    if not isinstance(value, dict):
        return {}
    try:
        return from_json(value)
    except (AttributeError, TypeError, ValueError):
        return {}  # another source's offsets
