"""Between a consumer and a store of offsets: where to read on when partitions come, and giving them up when they go.

    assigned --> store.load: takes the partition over ---> seek
    processed -> results and store.save, as one whole      (the program does it)
    revoked ---> the program's listener saves what it has -> store.release

A store fences: what another has loaded since can no longer be saved, so that a process that was thought dead, and
was only slow, cannot write anything twice.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from kavka.client.consumer.group.rebalance_listener import RebalanceListener
from kavka.client.partitions import partitions_of
from kavka.ids import TopicPartition

Start = Literal["earliest", "latest", "group"]


class OffsetsTaken(RuntimeError):
    """A partition belongs to another process by now, or still does: nothing of it may be written here."""


class OffsetStore(Protocol):
    """Offsets of the next records to read, kept elsewhere. With the asyncio consumer the methods may be coroutines."""

    def load(
        self, partitions: Sequence[TopicPartition], /
    ) -> Mapping[TopicPartition, int] | Awaitable[Mapping[TopicPartition, int]]:
        """Take partitions over, and return where to read on; those that were never saved are left out.

        Raise OffsetsTaken where another process does not give one up.
        """
        ...

    def release(self, partitions: Sequence[TopicPartition], /) -> object:
        """Release partitions. What was not saved is to be read again."""
        ...


class SeekingConsumer(Protocol):
    """The calls of `kavka.client.Consumer` and `kavka.client.blocking.Consumer` that are needed."""

    @property
    def commits_by_itself(self) -> bool:
        """Return whether positions are committed in the background."""
        ...

    @property
    def resets_to(self) -> str:
        """Return `auto.offset.reset`."""
        ...

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions."""
        ...

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Read on at an offset."""
        ...

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read on at the first record."""
        ...

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read on after the last record."""
        ...


class StoredOffsets(RebalanceListener):
    """Reads on where a store says: the listener of `subscribe`, or `assign` without a group.

    stored = StoredOffsets(consumer, store)
    consumer.subscribe(["orders"], listener=stored)
    """

    def __init__(
        self,
        consumer: SeekingConsumer,
        store: OffsetStore,
        *,
        start: Start = "earliest",
        listener: RebalanceListener | None = None,
    ) -> None:
        """Take a consumer that does not commit by itself, and a listener of the program's own.

        That is called when the positions are set, and before partitions are released. `start` says where a partition
        begins that was never saved; `group` where its group has committed, to move from there. Raise ValueError for
        `enable.auto.commit`, and for `auto.offset.reset=latest`, which skips records when the stored one is gone.
        """
        if consumer.commits_by_itself:
            raise ValueError("offsets are kept elsewhere: set enable.auto.commit to false")
        if consumer.resets_to == "latest":
            raise ValueError(
                "where the stored offset is no longer in the log, auto.offset.reset=latest would skip the records "
                "after it: set it to earliest, or to none for an error"
            )
        if start not in ("earliest", "latest", "group"):
            raise ValueError(f"start is earliest, latest or group, not {start!r}")
        if not hasattr(store, "load") or not hasattr(store, "release"):
            raise TypeError(f"the store has no load and release: {store!r:.80}")
        self._consumer = consumer
        self._store = store
        self._start = start
        self._listener = listener or RebalanceListener()

    def assign(self, partitions: Iterable[TopicPartition]) -> Any:
        """Read partitions without a group; an awaitable where the store's `load` is a coroutine."""
        wanted = partitions_of(partitions)
        self._consumer.assign(wanted)
        return self.on_assigned(wanted)

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Any:
        """Load and seek, then call the program's listener."""
        found = self._store.load(partitions)
        if inspect.isawaitable(found):
            return self._begin_later(found, partitions)
        return self._begin(found, partitions)

    async def _begin_later(
        self,
        found: Awaitable[Mapping[TopicPartition, int]],
        partitions: Sequence[TopicPartition],
    ) -> None:
        outcome = self._begin(await found, partitions)
        if inspect.isawaitable(outcome):
            await outcome

    def _begin(
        self, found: Mapping[TopicPartition, int], partitions: Sequence[TopicPartition]
    ) -> Any:
        for topic_partition in partitions:
            offset = found.get(topic_partition)
            if offset is not None:
                self._consumer.seek(topic_partition, offset)
            elif self._start == "earliest":
                self._consumer.seek_to_beginning([topic_partition])
            elif self._start == "latest":
                self._consumer.seek_to_end([topic_partition])
        return self._listener.on_assigned(partitions)

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> Any:
        """Call the program's listener, which may save, then release, also when it raises."""
        return self._release_after(self._listener.on_revoked, partitions)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> Any:
        """As `on_revoked`, with the listener's `on_lost`: saving may raise OffsetsTaken there."""
        return self._release_after(self._listener.on_lost, partitions)

    def _release_after(self, call: Any, partitions: Sequence[TopicPartition]) -> Any:
        is_later = False
        try:
            outcome = call(partitions)
            is_later = inspect.isawaitable(outcome)
        finally:
            released = None if is_later else self._store.release(partitions)
        return self._release_later(outcome, partitions) if is_later else released

    async def _release_later(
        self, outcome: Awaitable[object], partitions: Sequence[TopicPartition]
    ) -> None:
        try:
            await outcome
        finally:
            released = self._store.release(partitions)
            if inspect.isawaitable(released):
                await released
