"""Progress as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kavka.metrics.families import Family, Sample, counter, gauge, labelled
from kavka.spark.queries.flow_progress import RUNNING, FlowProgress

_PREFIX = "kavka_pipeline"


def families(flows: Iterable[FlowProgress]) -> Iterator[Family]:
    """Yield the families of metrics of flows."""
    progress = list(flows)

    def each(field: str) -> list[Sample]:
        samples = [(_labels(flow), getattr(flow, field)) for flow in progress]
        return [(labels, value) for labels, value in samples if value is not None]

    def total(field: str, help: str) -> Family:
        return counter(f"{_PREFIX}_{field}_total", help, each(field))

    yield total("rows_in", "Rows that a flow has read.")
    yield total("rows_out", "Rows that a flow has written, as far as its target counts them.")
    yield total("late_rows", "Rows dropped because they were behind the watermark.")
    yield total("restarts", "Starts of a flow after a failure.")
    running = [(_labels(flow), int(flow.state == RUNNING)) for flow in progress]
    yield gauge(f"{_PREFIX}_running", "1 while the flow runs, else 0.", running)
    yield gauge(f"{_PREFIX}_batch_id", "The last batch of a flow.", each("batch_id"))
    help = "Rows a second that a flow has read in its last batch."
    yield gauge(f"{_PREFIX}_rows_per_second", help, each("rows_per_second"))
    yield gauge(
        f"{_PREFIX}_batch_ms", "Milliseconds of the last batch by phase.", _phases(progress)
    )
    yield gauge(f"{_PREFIX}_state_rows", "Rows in the state of a flow.", each("state_rows"))
    yield gauge(f"{_PREFIX}_state_bytes", "Bytes of the state of a flow.", each("state_bytes"))
    yield from _lags(progress)
    yield from _expectations(progress)
    delays = [
        (_labels(flow), flow.watermark_delay_s)
        for flow in progress
        if flow.watermark_delay_s is not None
    ]
    help = "Seconds from the watermark to the end of the last batch."
    yield gauge(f"{_PREFIX}_watermark_delay_seconds", help, delays)
    help = "When a flow was last heard of, in seconds since 1970."
    heard = [(_labels(flow), flow.updated_ms / 1000) for flow in progress]
    yield gauge(f"{_PREFIX}_updated_timestamp_seconds", help, heard)


def _labels(flow: FlowProgress, **more: object) -> str:
    return labelled(pipeline=flow.pipeline, flow=flow.flow, **more)


def _phases(flows: Iterable[FlowProgress]) -> list[Sample]:
    return [
        (_labels(flow, phase=phase), ms) for flow in flows for phase, ms in flow.phases_ms.items()
    ]


def _lags(flows: list[FlowProgress]) -> Iterator[Family]:
    records: list[Sample] = []
    seconds: list[Sample] = []
    for flow in flows:
        for name, lag in flow.lag.items():
            topic, _, partition = name.rpartition("-")
            labels = _labels(flow, topic=topic, partition=partition)
            records.append((labels, lag.records))
            if lag.seconds is not None:
                seconds.append((labels, lag.seconds))
    yield gauge(f"{_PREFIX}_lag_records", "Records that a flow has not read yet.", records)
    yield gauge(
        f"{_PREFIX}_lag_seconds", "Age of the first record that a flow has not read.", seconds
    )


def _expectations(flows: list[FlowProgress]) -> Iterator[Family]:
    for outcome, verb in (("passed", "met"), ("failed", "did not meet")):
        samples: list[Sample] = []
        for flow in flows:
            for metric, counts in flow.expectations.items():
                action, _, name = metric.partition(":")
                labels = _labels(flow, expectation=name, action=action)
                samples.append((labels, getattr(counts, outcome)))
        help = f"Rows that {verb} an expectation of a flow."
        yield counter(f"{_PREFIX}_expectation_{outcome}_total", help, samples)
