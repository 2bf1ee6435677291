"""Lag of consumer groups, in records and in seconds, as samples; their names and labels are kafka_exporter's."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from kavka.client.admin import Admin
from kavka.client.lag import Lag
from kavka.collect.delivery import Batch
from kavka.collect.host import Sample
from kavka.collect.pages import TimedSample
from kavka.collect.sampler import Sampler
from kavka.errors import KafkaError
from kavka.ids import BrokerId

_MAX_CONCURRENT = 8
"""Maximum number of groups that are queried concurrently."""
_TIMEOUT_MS = 5000
"""The longest time for a response: a broker that is silent delays the groups of the others as little as that."""


async def sample_groups(
    settings: Mapping[str, Any], pattern: re.Pattern[str], sampler: Sampler, batch: Batch
) -> None:
    """Add the lag of each group whose whole name matches, and `up` of their cluster: 0 if it did not respond."""
    time_ms = int(time.time() * 1000)
    samples: list[Sample] = []
    error: str | None = None
    is_up = False
    try:
        async with Admin(settings) as admin:
            groups, silent = await matching_groups(admin, pattern)
            samples, error = await group_samples(admin, groups)
            error = error or silent
    except (KafkaError, OSError, TimeoutError) as failure:
        sampler.statistics.errors += 1
        error = str(failure) or type(failure).__name__
    else:
        sampler.statistics.errors += bool(error)
        is_up = True
    samples.append(Sample("up", int(is_up), {}))
    source = f"groups of {settings['bootstrap.servers']}"
    sampler.add(batch, source, [TimedSample(sample, None) for sample in samples], time_ms, error)


async def matching_groups(admin: Admin, pattern: re.Pattern[str]) -> tuple[list[str], str | None]:
    """Return the groups whose whole name matches, sorted, and which broker did not list its own, if one did not.

    Raise where none did.
    """
    failures: dict[BrokerId, Exception] = {}
    listed = await admin.list_groups(timeout_ms=_TIMEOUT_MS, failures=failures)
    names = {group.group_id for group in listed if pattern.fullmatch(group.group_id)}
    silent = [f"groups of broker {broker}: {error}" for broker, error in sorted(failures.items())]
    return sorted(names), silent[0] if silent else None


async def group_samples(admin: Admin, groups: Iterable[str]) -> tuple[list[Sample], str | None]:
    """Return the lag of groups as samples, and the last failure."""
    failures: list[str] = []
    limit = asyncio.Semaphore(_MAX_CONCURRENT)

    async def samples_or_failure(group: str) -> list[Sample]:
        async with limit:
            try:
                return await _samples_of(admin, group)
            except (
                KafkaError,
                OSError,
            ) as error:  # of this group: the samples of the others are sent
                failures.append(f"group {group}: {error}")
                return []

    of_groups = await asyncio.gather(*map(samples_or_failure, groups))
    samples = [sample for of_group in of_groups for sample in of_group]
    return samples, failures[-1] if failures else None


async def _samples_of(admin: Admin, group: str) -> list[Sample]:
    """Return the samples of one group; a partition that was deleted, or has no leader, has none."""
    committed = await admin.list_group_offsets(group, timeout_ms=_TIMEOUT_MS)
    offsets = {topic_partition: entry.offset for topic_partition, entry in committed.items()}
    samples = []
    lags = await admin.lags(offsets, timeout_ms=_TIMEOUT_MS)
    for (topic, partition), lag in sorted(lags.items()):
        if not isinstance(lag, Lag):
            continue
        labels = {"consumergroup": group, "topic": topic, "partition": str(partition)}
        samples.append(Sample("kafka_consumergroup_lag", lag.records, labels))
        if lag.seconds is not None:
            samples.append(Sample("kafka_consumergroup_lag_seconds", lag.seconds, labels))
    return samples
