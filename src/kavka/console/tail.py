"""Follows a topic: a bounded number of new records a second, and how many there were.

A browser that must show every record of a fast topic stands still. So each batch of an interval has the newest records
up to a bound, and the number of those that were left out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from kavka.client.consumer.batches import ConsumerRecord, FetchedBatches
from kavka.client.consumer.consumer import Consumer
from kavka.ids import TopicPartition

INTERVAL_MS: Final = 500
MOST_RECORDS: Final = 40
"""Records of an interval that are shown."""
_POLL_RECORDS: Final = 10_000
_POLL_MS: Final = 100


@dataclass(frozen=True, slots=True)
class TailBatch:
    """The records of one interval, oldest first; `seen` counts all, `kept` those that pass the filter."""

    records: list[ConsumerRecord]
    seen: int
    kept: int


class Gathered:
    """Records of one interval. Pure."""

    def __init__(self, most: int) -> None:
        """Keep the newest `most` records."""
        self._records: deque[ConsumerRecord] = deque(maxlen=most)
        self._most = most
        self._seen = 0
        self._kept = 0

    def add(self, batches: FetchedBatches, keep: Callable[[ConsumerRecord], bool] | None) -> None:
        """Add what a poll returned."""
        count = len(batches)
        self._seen += count
        records = batches.records()
        chosen = records[-self._most :] if keep is None else [r for r in records if keep(r)]
        self._kept += count if keep is None else len(chosen)
        self._records.extend(chosen)

    def take(self) -> TailBatch:
        """Return the interval's records, and begin the next one."""
        found = TailBatch(list(self._records), self._seen, self._kept)
        self._records.clear()
        self._seen = self._kept = 0
        return found


async def follow(
    consumer: Consumer,
    topic: str,
    partitions: list[int],
    keep: Callable[[ConsumerRecord], bool] | None,
) -> AsyncIterator[TailBatch]:
    """Yield a batch each interval, also an empty one, from the ends on. Raise KafkaError, OSError."""
    keys = [TopicPartition(topic, partition) for partition in partitions]
    ends = await consumer.end_offsets(keys)
    consumer.assign(keys)
    for key, offset in ends.items():
        consumer.seek(key, offset)
    gathered = Gathered(MOST_RECORDS)
    loop = asyncio.get_running_loop()
    yield gathered.take()  # says that all before is known
    while True:
        until = loop.time() + INTERVAL_MS / 1000
        while (left_s := until - loop.time()) > 0:
            for batches in await consumer.poll(
                min(_POLL_MS, max(round(left_s * 1000), 1)), _POLL_RECORDS
            ):
                gathered.add(batches, keep)
        yield gathered.take()
