"""Single records out of fetched batches: `async for record in consumer`."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from operator import length_hint
from typing import Self

from kavka.client.consumer.batches import (
    ConsumerRecord,
    CorruptRecordError,
    FetchedBatches,
    RecordDeserializationError,
)
from kavka.ids import TopicPartition


class RecordIteration:
    """The records that an iteration over a consumer has at hand, how far they are read, and the batches behind them."""

    def __init__(self, poll: Callable[[], Awaitable[list[FetchedBatches]]]) -> None:
        """`poll` is called for more when all records are read."""
        self._poll = poll
        self._ahead: deque[FetchedBatches] = deque()
        self.at_hand: Iterator[ConsumerRecord]
        """The records that are returned without waiting."""
        self._set_rows(())

    def __aiter__(self) -> Self:
        """Iterate over records without end."""
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Return the next record. Raise what `poll` raises, CorruptRecordError and RecordDeserializationError."""
        while True:
            for record in self.at_hand:
                return record
            self._set_rows(())  # all of them are done
            if not self._ahead:
                # Not in one expression: a listener that seeks within the poll replaces `_ahead`.
                found = await self._poll()
                self._ahead.extend(found)
            else:
                try:
                    rows = self._ahead[0].records()
                except (CorruptRecordError, RecordDeserializationError):
                    self._ahead.popleft()  # its position went back, so it comes again
                    raise
                self._ahead.popleft()
                self._set_rows(rows)

    def put_back_last(self) -> None:
        """Count the record that was returned last as unread."""
        index = len(self._rows) - length_hint(self.at_hand) - 1
        if index >= 0:
            self._set_rows(self._rows[index:])

    def unread(self) -> dict[TopicPartition, int]:
        """Return the first unread offset of each partition with records that were not returned."""
        unread = {batches.topic_partition: batches.first_offset for batches in self._ahead}
        left = length_hint(self.at_hand)
        if left:
            record = self._rows[len(self._rows) - left]
            unread[TopicPartition(record.topic, record.partition)] = record.offset
        return unread

    def discard(self, topic_partition: TopicPartition | None = None) -> None:
        """Drop what was not returned of one partition, or of all."""
        if topic_partition is None or (self._rows and self._rows[0][:2] == topic_partition):
            self._set_rows(())
        self._ahead = deque(
            batches
            for batches in self._ahead
            if topic_partition is not None and batches.topic_partition != topic_partition
        )

    def _set_rows(self, rows: Sequence[ConsumerRecord]) -> None:
        self._rows = rows
        self.at_hand = iter(rows)
