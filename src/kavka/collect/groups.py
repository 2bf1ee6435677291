"""Lag of consumer groups, in records and in seconds, as samples; their names and labels are kafka_exporter's."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from typing import Any

from kavka.client.admin import Admin
from kavka.client.lag import Lag
from kavka.collect.delivery import Batch
from kavka.collect.host import Sample
from kavka.collect.pages import TimedSample
from kavka.collect.sampling import Sampler
from kavka.errors import KafkaError

_AT_ONCE = 8
"""Groups that are asked for at a time."""


async def take_groups(
    settings: Mapping[str, Any], pattern: re.Pattern[str], sampler: Sampler, batch: Batch
) -> None:
    """Add the lag of each group that matches as a whole, and `up` for their cluster, 0 where it did not answer."""
    time_ms = int(time.time() * 1000)
    found: list[Sample] = []
    error: str | None = None
    try:
        async with Admin(settings) as admin:
            found = await _samples(admin, pattern)
    except (KafkaError, OSError, TimeoutError) as failure:
        sampler.statistics.errors += 1
        error = str(failure) or type(failure).__name__
    found.append(Sample("up", 0 if error else 1, {}))
    source = f"groups of {settings['bootstrap.servers']}"
    sampler.add(batch, source, [TimedSample(sample, None) for sample in found], time_ms, error)


async def _samples(admin: Admin, pattern: re.Pattern[str]) -> list[Sample]:
    listed = await admin.list_groups()
    groups = sorted({group.group_id for group in listed if pattern.fullmatch(group.group_id)})
    limit = asyncio.Semaphore(_AT_ONCE)

    async def of_group(group: str) -> list[Sample]:
        async with limit:
            return await _samples_of(admin, group)

    return [sample for found in await asyncio.gather(*map(of_group, groups)) for sample in found]


async def _samples_of(admin: Admin, group: str) -> list[Sample]:
    """Return the samples of one group; a partition that is gone, or has no leader now, has none."""
    committed = await admin.list_group_offsets(group)
    lags = await admin.lags({at: known.offset for at, known in committed.items()})
    found = []
    for at, lag in sorted(lags.items()):
        if not isinstance(lag, Lag):
            continue
        labels = {"consumergroup": group, "topic": at.topic, "partition": str(at.partition)}
        found.append(Sample("kafka_consumergroup_lag", lag.records, labels))
        if lag.seconds is not None:
            found.append(Sample("kafka_consumergroup_lag_seconds", lag.seconds, labels))
    return found
