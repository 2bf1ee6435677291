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
    is_up = False
    try:
        async with Admin(settings) as admin:
            found, error = await _samples(admin, pattern)
    except (KafkaError, OSError, TimeoutError) as failure:
        sampler.statistics.errors += 1
        error = str(failure) or type(failure).__name__
    else:
        sampler.statistics.errors += bool(error)
        is_up = True
    found.append(Sample("up", int(is_up), {}))
    source = f"groups of {settings['bootstrap.servers']}"
    sampler.add(batch, source, [TimedSample(sample, None) for sample in found], time_ms, error)


async def _samples(admin: Admin, pattern: re.Pattern[str]) -> tuple[list[Sample], str | None]:
    """Return the samples of all groups, and the failure of the last one that has none."""
    failures: list[str] = []
    listed = await admin.list_groups()
    groups = sorted({group.group_id for group in listed if pattern.fullmatch(group.group_id)})
    limit = asyncio.Semaphore(_AT_ONCE)

    async def of_group(group: str) -> list[Sample]:
        async with limit:
            try:
                return await _samples_of(admin, group)
            except KafkaError as error:  # of this group: the others have their lag
                failures.append(f"group {group}: {error}")
                return []

    found = await asyncio.gather(*map(of_group, groups))
    return [sample for some in found for sample in some], failures[-1] if failures else None


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
