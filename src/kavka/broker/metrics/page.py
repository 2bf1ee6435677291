"""The page: all families as text, written in slices so that clients are served meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from kavka.broker.metrics import (
    access,
    broker_state,
    cleaner,
    connections,
    controller,
    coordinators,
    partitions,
    quotas,
    replica_fetchers,
    requests,
    topics,
    transactions,
)
from kavka.broker.metrics.samples import Samples
from kavka.broker.metrics.sources import MetricsSources
from kavka.metrics import process
from kavka.metrics.families import Family, lines
from kavka.metrics.rates import Rates

_SLICE_MS = 2
_LINES = 200  # between two reads of the clock


def families(
    sources: MetricsSources,
    idle: float,
    rates: Rates | None = None,
    samples: Samples | None = None,
) -> Iterator[Family]:
    """Yield all families; `idle` is the share of its time that the loop had nothing to do."""
    yield from broker_state.families(sources, idle)
    yield from topics.families(sources)
    yield from requests.families(sources)
    yield from connections.families(sources, rates)
    yield from access.families(sources)
    yield from quotas.families(sources)
    yield from controller.families(sources)
    yield from coordinators.families(sources, rates)
    yield from replica_fetchers.families(sources, rates)
    yield from transactions.families(sources, samples)
    yield from cleaner.families(sources)
    yield from process.families()
    yield from partitions.families(sources)
    if samples is not None:
        yield from samples.families()


async def page(
    sources: MetricsSources, idle: float, rates: Rates, samples: Samples | None = None
) -> bytes:
    """Return the text. Counters of one page may be of moments that lie milliseconds apart."""
    clock = sources.context.clock
    slice_end = clock.tick_ms() + _SLICE_MS
    chunks: list[bytes] = []
    waiting: list[str] = []
    for family in families(sources, idle, rates, samples):
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
