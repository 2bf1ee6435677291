"""A bounded search for records: windows of offsets, read until enough is found or a bound is reached.

A window is what a search may look at in one partition. Newest records are a window at the end, so that a search without
a filter reads little; with one, a window takes the partition's share of the bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kavka.client.consumer.batches import ConsumerRecord
from kavka.client.consumer.consumer import Consumer
from kavka.console.views.messages import PartitionReach, Reach, reach_of, silent_partitions
from kavka.ids import TopicPartition

_POLL_RECORDS: Final = 500
_POLL_MS: Final = 250


@dataclass(frozen=True, slots=True)
class Window:
    """The offsets of one partition from `first` up to and without `stop`, of a log with these ends."""

    partition: int
    first: int
    stop: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one search."""

    found: int
    """Records that are wanted."""
    records: int
    size_bytes: int = 64_000_000
    time_ms: int = 4_000


@dataclass(frozen=True, slots=True)
class Found:
    """The records of a search, oldest first."""

    records: list[ConsumerRecord]
    reach: Reach
    firsts: dict[int, int]
    """By partition, the offset below which a search for older records goes on."""
    next: dict[int, int]
    """By partition, the offset at which a search for newer records goes on."""


def newest_windows(
    starts: Mapping[int, int], ends: Mapping[int, int], stops: Mapping[int, int], each: int
) -> list[Window]:
    """Return windows of `each` offsets that end at `stops`, by default at the ends of the logs."""
    windows = []
    for partition, start in starts.items():
        stop = min(max(stops.get(partition, ends[partition]), start), ends[partition])
        windows.append(Window(partition, max(start, stop - each), stop, start, ends[partition]))
    return windows


def forward_windows(
    starts: Mapping[int, int], ends: Mapping[int, int], firsts: Mapping[int, int]
) -> list[Window]:
    """Return windows from `firsts`, by default from the starts of the logs, to their ends."""
    return [
        Window(
            partition,
            min(max(firsts.get(partition, start), start), ends[partition]),
            ends[partition],
            start,
            ends[partition],
        )
        for partition, start in starts.items()
    ]


class _Progress:
    """The state of one search."""

    def __init__(
        self,
        windows: Iterable[Window],
        bounds: Bounds,
        newest: bool,
        silent: Mapping[int, str],
        leaders: Mapping[int, int],
    ) -> None:
        self.windows = {window.partition: window for window in windows}
        self.next = {p: window.first for p, window in self.windows.items()}
        self.firsts = dict(self.next)
        self.kept: dict[int, list[ConsumerRecord]] = {p: [] for p in self.windows}
        self.records = 0
        self.size_bytes = 0
        self._bounds = bounds
        self._newest = newest
        self._silent = silent
        self._leaders = leaders

    def open(self) -> list[int]:
        """Return the partitions that are still to be read."""
        return [
            p
            for p, window in self.windows.items()
            if self.next[p] < window.stop
            and (self._newest or len(self.kept[p]) < self._bounds.found)
        ]

    def take(self, record: ConsumerRecord, keep: Callable[[ConsumerRecord], bool]) -> bool:
        """Look at a record; false when its partition is to be read no further."""
        partition, offset = record.partition, record.offset
        window, kept = self.windows[partition], self.kept[partition]
        if offset >= window.stop:
            self.next[partition] = window.stop
            return False
        if offset < self.next[partition]:
            return True
        if self.is_full() or (not self._newest and len(kept) >= self._bounds.found):
            return False
        self.next[partition] = offset + 1
        self.records += 1
        self.size_bytes += len(record.value or b"") + len(record.key or b"")
        if keep(record):
            kept.append(record)
            if len(kept) > self._bounds.found:  # only when the newest are wanted
                self.firsts[partition] = kept.pop(0).offset + 1
        return True

    def is_full(self) -> bool:
        """Return whether a bound of records or bytes is reached."""
        return self.records >= self._bounds.records or self.size_bytes >= self._bounds.size_bytes

    def ended(self, is_late: bool) -> str:
        """Return why the search ends now, nothing when it does not."""
        if not self.open():
            return (
                "end" if all(self.next[p] >= w.stop for p, w in self.windows.items()) else "found"
            )
        if self.records >= self._bounds.records:
            return "records"
        if self.is_full():
            return "bytes"
        return "time" if is_late else ""

    def result(self, ended: str) -> Found:
        """Return what was found: the oldest or the newest of all partitions together."""
        found = sorted(
            (record for kept in self.kept.values() for record in kept),
            key=lambda record: (record.timestamp, record.partition, record.offset),
        )
        wanted = self._bounds.found
        # Time is no order of offsets: what is shown must not come again with the next search, what is not shown must.
        if self._newest:
            for record in found[:-wanted]:
                p = record.partition
                self.firsts[p] = max(self.firsts[p], record.offset + 1)
            chosen = [r for r in found[-wanted:] if r.offset >= self.firsts[r.partition]]
        else:
            for record in found[wanted:]:
                p = record.partition
                self.next[p] = min(self.next[p], record.offset)
            chosen = [r for r in found[:wanted] if r.offset < self.next[r.partition]]
        if len(found) > wanted:
            ended = "found"
        silent = {**self._silent, **self._unread(ended)}
        partitions = [
            PartitionReach(p, self.firsts[p], self.next[p], w.start_offset, w.end_offset)
            for p, w in sorted(self.windows.items())
        ]
        unanswered = silent_partitions(silent, self._leaders)
        reach = reach_of(self.records, self.size_bytes, ended, partitions, unanswered)
        return Found(chosen, reach, self.firsts, self.next)

    def _unread(self, ended: str) -> dict[int, str]:
        """Return the partitions of which nothing came in the time of the search."""
        if ended != "time":
            return {}
        reason = f"no record in {self._bounds.time_ms} ms"
        return {p: reason for p in self.open() if self.next[p] == self.windows[p].first}


async def search(
    consumer: Consumer,
    topic: str,
    windows: list[Window],
    keep: Callable[[ConsumerRecord], bool],
    bounds: Bounds,
    *,
    newest: bool,
    silent: Mapping[int, str] = MappingProxyType({}),
    leaders: Mapping[int, int] = MappingProxyType({}),
) -> Found:
    """Read windows with a consumer of its own. Raise KafkaError, OSError, CorruptRecordError.

    `silent` are partitions without a window, and why; they are named, with their leaders.
    """
    progress = _Progress(windows, bounds, newest, silent, leaders)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + bounds.time_ms / 1000
    reading = progress.open()
    _assign(consumer, topic, {p: progress.next[p] for p in reading})
    while not (ended := progress.ended(loop.time() >= deadline)):
        for batches in await consumer.poll(_POLL_MS, _POLL_RECORDS):
            partition = batches.partition
            for record in batches.records():
                if not progress.take(record, keep):
                    break
            else:
                # Offsets without a record (markers, compaction) were looked at as well.
                window = progress.windows[partition]
                progress.next[partition] = max(
                    progress.next[partition], min(batches.next_offset, window.stop)
                )
        if progress.is_full():
            continue  # records that were handed out were not looked at
        await _past_gaps(consumer, topic, progress)
        if progress.open() != reading:
            reading = progress.open()
            consumer.assign([TopicPartition(topic, p) for p in reading])
    return progress.result(ended)


def _assign(consumer: Consumer, topic: str, positions: Mapping[int, int]) -> None:
    consumer.assign([TopicPartition(topic, p) for p in positions])
    for partition, offset in positions.items():
        consumer.seek(TopicPartition(topic, partition), offset)


async def _past_gaps(consumer: Consumer, topic: str, progress: _Progress) -> None:
    """Take the consumer's position, which is beyond markers and what compaction has removed.

    All that was handed out of a partition that is still open was looked at.
    """
    for partition in progress.open():
        key = TopicPartition(topic, partition)
        if key in consumer.assignment():
            position = await consumer.position(key)
            window = progress.windows[partition]
            progress.next[partition] = max(progress.next[partition], min(position, window.stop))
