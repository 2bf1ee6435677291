"""Records given to a producer in their order, without waiting for their acknowledgements."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kavka.client.producer import Producer, RecordRange

Pair = tuple[bytes | None, bytes | None]


class PairSource:
    """(key, value) pairs that a producer takes; `is_read` is set when it has taken the last one."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        """Take the pairs."""
        self.is_read = asyncio.Event()
        self.rest = self._read(pairs)

    def _read(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        yield from pairs
        self.is_read.set()


async def send_in_order(
    producer: Producer, topic: str, source: PairSource
) -> asyncio.Task[list[RecordRange]]:
    """Return when the producer has taken all records, or has failed; the task ends with their acknowledgements.

    Until then nothing else may be given to the producer, or the order is lost. A task that has failed before
    `source.is_read` was refused the last record that it took: the rest may be handed over again.
    """
    task = asyncio.create_task(producer.send_many(topic, source.rest))
    await asyncio.sleep(0)
    if not (task.done() or source.is_read.is_set()):
        reading = asyncio.create_task(source.is_read.wait())
        await asyncio.wait({task, reading}, return_when=asyncio.FIRST_COMPLETED)
        reading.cancel()
    return task
