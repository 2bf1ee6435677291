"""Rates of topics in the last quarter of an hour: the ends of all partitions, looked at every few seconds.

A sample that failed is a gap. On a large cluster samples are further apart, so that looking takes at most a fiftieth of
the time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from kavka.client.admin.records import OffsetSpec
from kavka.client.list_offsets import OffsetAndTimestamp
from kavka.console.connection import ClusterConnection
from kavka.console.leaders import offsets_by_leader
from kavka.errors import KafkaError

log = logging.getLogger(__name__)

_KEPT_S: Final = 900
_MOST_SAMPLES: Final = 180
_SHARE: Final = 50
"""The time between samples is at least so many times what one took."""


class _Sample(NamedTuple):
    at_s: float
    ends: Mapping[str, int] | None
    """Sum of the ends of each topic's partitions; None for a sample that failed."""


class Rate(NamedTuple):
    """Records a second until a time, in seconds since 1970; None where it is not known."""

    at_s: int
    per_second: float | None


class RateHistory:
    """Samples of the last quarter of an hour. Pure."""

    def __init__(self) -> None:
        """Begin without samples."""
        self._samples: deque[_Sample] = deque(maxlen=_MOST_SAMPLES)

    def add(self, at_s: float, ends: Mapping[str, int] | None) -> None:
        """Add a sample, None for one that failed."""
        while self._samples and self._samples[0].at_s < at_s - _KEPT_S:
            self._samples.popleft()
        self._samples.append(_Sample(at_s, ends))

    def rates(self, topic: str | None = None) -> list[Rate]:
        """Return the rates of a topic, or of all together, from old to new."""
        samples = list(self._samples)
        return [
            Rate(round(later.at_s), _rate(earlier, later, topic))
            for earlier, later in pairwise(samples)
        ]

    def restricted(self, sees: Callable[[str], bool]) -> RateHistory:
        """Return the history of some topics."""
        topics = set().union(*(ends for _, ends in self._samples if ends is not None))
        seen = {topic for topic in topics if sees(topic)}
        made = RateHistory()
        for at_s, ends in self._samples:
            kept = ends if ends is None else {n: ends[n] for n in ends.keys() & seen}
            made.add(at_s, kept)
        return made

    def latest(self, topic: str | None = None) -> float | None:
        """Return the newest rate."""
        if len(self._samples) < 2:
            return None
        return _rate(self._samples[-2], self._samples[-1], topic)


def _rate(earlier: _Sample, later: _Sample, topic: str | None) -> float | None:
    """Return records a second between two samples; a topic that was made again has none."""
    elapsed_s = later.at_s - earlier.at_s
    if earlier.ends is None or later.ends is None or elapsed_s <= 0:
        return None
    if topic is not None:
        if topic not in earlier.ends or topic not in later.ends:
            return None
        grown = later.ends[topic] - earlier.ends[topic]
        return None if grown < 0 else grown / elapsed_s
    total = sum(
        max(end - earlier.ends[name], 0) for name, end in later.ends.items() if name in earlier.ends
    )
    return total / elapsed_s


class Sampler:
    """Takes the samples while the console runs."""

    def __init__(self, cluster: ClusterConnection, interval_ms: int) -> None:
        """Take samples every so often; never at 0."""
        self.history = RateHistory()
        self._cluster = cluster
        self._interval_s = interval_ms / 1000
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to take samples."""
        if self._interval_s > 0:
            self._task = asyncio.create_task(self._run(), name="kavka-console-sampler")

    async def stop(self) -> None:
        """Take no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self.sample()
            took_s = loop.time() - began
            await asyncio.sleep(max(self._interval_s - took_s, took_s * _SHARE))

    async def sample(self) -> None:
        """Take one sample now."""
        try:
            ends = await self._ends()
        except (KafkaError, OSError) as error:
            log.info("sample of rates failed reason=%s", error)
            ends = None
        self.history.add(time.time(), ends)

    async def _ends(self) -> dict[str, int]:
        topics = await self._cluster.topics()
        wanted = {name: topic.partitions for name, topic in topics.items() if not topic.is_internal}
        found = await offsets_by_leader(self._cluster, wanted, OffsetSpec.LATEST)
        ends: dict[str, int] = {}
        unknown: set[str] = set()
        for topic_partition, answer in found.items():
            if isinstance(answer, OffsetAndTimestamp):
                ends[topic_partition.topic] = ends.get(topic_partition.topic, 0) + answer.offset
            else:
                unknown.add(topic_partition.topic)
        # Without one of its partitions a topic would seem to have shrunk, and to have grown when it is back.
        return {name: end for name, end in ends.items() if name not in unknown}
