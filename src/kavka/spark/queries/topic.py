"""The topic of progress: compacted, one record for each flow of each pipeline, read from anywhere.

The key is `pipeline/flow`, the value the flow's progress as JSON; null when the flow was forgotten.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kavka.client import Consumer
from kavka.client.admin import Admin, NewTopic
from kavka.client.producer import Producer
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.spark.queries.flow_progress import (
    RUNNING,
    WAITING,
    FlowProgress,
    expectation_lines,
    progress_from_json,
)

log = logging.getLogger(__name__)

PROGRESS_TOPIC = "__kavka_pipelines"
STALE_AFTER_MS = 60_000
"""A flow that should run and was not reported for so long belongs to a run that died."""
_API_TIMEOUT_MS = 10_000
_BOUNDS = {"max.block.ms": 5_000, "request.timeout.ms": 5_000, "delivery.timeout.ms": 10_000}
"""Progress is not worth waiting for: the end of a run waits for its last records."""
_EVERY_MS = 1_000
_HEARTBEAT_MS = 10_000


class StatusPublisher:
    """Writes what changed, once a second at most, and everything every ten seconds."""

    def __init__(self, settings: Mapping[str, Any], topic: str = PROGRESS_TOPIC) -> None:
        """Set the client's settings; nothing is sent yet."""
        self._settings = dict(settings)
        self._topic = topic
        self._sent: dict[str, tuple[str, int]] = {}
        self._producer: Producer | None = None

    async def start(self) -> None:
        """Connect, and create the topic if there is none. Raise OSError, KafkaError."""
        async with Admin({"default.api.timeout.ms": _API_TIMEOUT_MS, **self._settings}) as admin:
            topic = NewTopic(self._topic, 1, configs={"cleanup.policy": "compact"})
            [result] = (await admin.create_topics([topic])).values()
        if isinstance(result, KafkaError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise result
        producer = Producer({**_BOUNDS, **self._settings, "linger.ms": 5})
        await producer.start()
        self._producer = producer

    async def publish(
        self, flows: Sequence[FlowProgress], now_ms: int, *, all_now: bool = False
    ) -> None:
        """Send the progress of flows that is due, and tombstones for those that are gone. Raise KafkaError, OSError."""
        assert self._producer is not None, "start() was not called"
        gone = self._sent.keys() - {f"{flow.pipeline}/{flow.flow}" for flow in flows}
        sends = [self._producer.send(self._topic, None, key.encode()) for key in sorted(gone)]
        for flow in flows:
            key = f"{flow.pipeline}/{flow.flow}"
            value = flow.to_json()
            before, sent_ms = self._sent.get(key, ("", 0))
            age_ms = now_ms - sent_ms
            if all_now or (age_ms >= _EVERY_MS and value != before) or age_ms >= _HEARTBEAT_MS:
                self._sent[key] = (value, now_ms)
                sends.append(self._producer.send(self._topic, value.encode(), key.encode()))
        await asyncio.gather(*sends)
        for key in gone:
            del self._sent[key]

    async def close(self) -> None:
        """Close the connections."""
        if self._producer is not None:
            await self._producer.close()
            self._producer = None


async def read_progress(
    settings: Mapping[str, str], topic: str = PROGRESS_TOPIC, timeout_s: float = 30.0
) -> list[FlowProgress]:
    """Return the newest progress of every flow, sorted. Raise KafkaError when there is no such topic, OSError."""
    bounded = {"default.api.timeout.ms": _API_TIMEOUT_MS, **settings}
    async with Admin(bounded) as admin:
        [described] = (await admin.describe_topics([topic])).values()
        if isinstance(described, KafkaError):
            raise described
    async with Consumer({**bounded, "isolation.level": "read_committed"}) as consumer:
        return await progress_read_by(consumer, topic, timeout_s)


async def progress_read_by(
    consumer: Consumer, topic: str, timeout_s: float = 30.0, most: int | None = None
) -> list[FlowProgress]:
    """Return the same by a consumer that reads committed records; it stops where there are `most` flows.

    Raise KafkaError, OSError.
    """
    at = TopicPartition(topic, 0)
    newest: dict[bytes, FlowProgress] = {}
    consumer.assign([at])
    consumer.seek_to_beginning([at])
    end = (await consumer.end_offsets([at]))[at]
    deadline = time.monotonic() + timeout_s
    while await consumer.position(at) < end and (most is None or len(newest) < most):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic} could not be read in {timeout_s:g} s")
        for batch in await consumer.poll(500):
            for record in batch.records():
                if record.value is None:
                    newest.pop(record.key or b"", None)
                    continue
                try:
                    flow = progress_from_json(record.value)
                except ValueError as error:
                    log.warning(
                        "record left out topic=%s offset=%d reason=%s", topic, record.offset, error
                    )
                    continue
                flow.updated_ms = record.timestamp  # of the heartbeat, if that is later
                newest[record.key or b""] = flow
    return sorted(newest.values(), key=lambda progress: (progress.pipeline, progress.flow))


async def forget_flows(
    settings: Mapping[str, str], flows: Sequence[FlowProgress], topic: str = PROGRESS_TOPIC
) -> None:
    """Remove flows from the topic; one that runs is there again with its next report. Raise KafkaError, OSError."""
    async with Producer({**_BOUNDS, **settings}) as producer:
        keys = [f"{flow.pipeline}/{flow.flow}".encode() for flow in flows]
        await asyncio.gather(*(producer.send(topic, None, key) for key in keys))


def is_lost(flow: FlowProgress, now_ms: int) -> bool:
    """Return whether a flow should run, and has not been heard of for a minute."""
    is_live = flow.state in (RUNNING, WAITING)
    return is_live and now_ms - flow.updated_ms > STALE_AFTER_MS


def is_over(flow: FlowProgress, now_ms: int) -> bool:
    """Return whether a flow has ended, in order or not."""
    return flow.state not in (RUNNING, WAITING) or is_lost(flow, now_ms)


_TITLES = (
    "PIPELINE", "FLOW", "STATE", "BATCH", "ROWS-IN", "ROWS-OUT", "ROWS/S", "LAG", "LAG-SECONDS",
    "WATERMARK-DELAY", "LATE", "FAILED-ROWS", "STATE-ROWS", "RESTARTS", "SEEN",
)  # fmt: skip


def status_table(flows: Sequence[FlowProgress], now_ms: int) -> str:
    """Return flows as a table, and below it the last errors."""
    rows = [_TITLES, *(_row(flow, now_ms) for flow in flows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    counted = [
        f"{flow.pipeline}/{flow.flow}: {line}" for flow in flows for line in expectation_lines(flow)
    ]
    if counted:
        lines += ["", "expectations:", *counted]
    errors = [
        f"{flow.pipeline}/{flow.flow}: {flow.last_error}" for flow in flows if flow.last_error
    ]
    if errors:
        lines += ["", "last errors:", *errors]
    return "\n".join(lines)


def _row(flow: FlowProgress, now_ms: int) -> tuple[str, ...]:
    age_ms = now_ms - flow.updated_ms
    return (
        flow.pipeline,
        flow.flow,
        "lost" if is_lost(flow, now_ms) else flow.state,
        _known(flow.batch_id if flow.batch_id >= 0 else None),
        str(flow.rows_in) if flow.kind == "stream" else "-",
        _known(flow.rows_out),
        f"{flow.rows_per_second:.0f}" if flow.kind == "stream" else "-",
        str(flow.lag_records) if flow.lag else "-",
        _seconds(flow.lag_seconds),
        _seconds(flow.watermark_delay_s),
        str(flow.late_rows),
        _known(flow.failed_rows),
        str(flow.state_rows),
        str(flow.restarts),
        f"{max(age_ms, 0) / 1000:.0f} s ago",
    )


def _known(number: int | None) -> str:
    return "-" if number is None else str(number)


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f}"
