"""The page: all families as text, written in slices so that clients are served meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from kavka.broker.broker import Broker
from kavka.broker.metrics import (
    broker_state,
    cleaner,
    controller,
    coordinators,
    partitions,
    replica_fetchers,
    requests,
    topics,
)
from kavka.metrics import process
from kavka.metrics.families import Family, lines

_SLICE_MS = 2
_LINES = 200  # between two looks at the clock


def families(broker: Broker, idle: float) -> Iterator[Family]:
    """Yield all families; `idle` is the share of its time that the loop had nothing to do."""
    yield from broker_state.families(broker, idle)
    yield from topics.families(broker)
    yield from requests.families(broker)
    yield from controller.families(broker)
    yield from coordinators.families(broker)
    yield from replica_fetchers.families(broker)
    yield from cleaner.families(broker)
    yield from process.families()
    yield from partitions.families(broker)


async def page(broker: Broker, idle: float) -> bytes:
    """Return the text. Counters of one page may be of moments that lie milliseconds apart."""
    clock = broker.clock
    slice_end = clock.tick_ms() + _SLICE_MS
    chunks: list[bytes] = []
    waiting: list[str] = []
    for family in families(broker, idle):
        for line in lines(family):
            waiting.append(line)
            if len(waiting) < _LINES:
                continue
            chunks.append("".join(waiting).encode())
            waiting.clear()
            if clock.tick_ms() >= slice_end:
                await asyncio.sleep(0)
                slice_end = clock.tick_ms() + _SLICE_MS
    chunks.append("".join(waiting).encode())
    return b"".join(chunks)
