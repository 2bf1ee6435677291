"""The blocking consumer: listeners are called in the thread that waits."""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from kavka.client.arguments import timeout
from kavka.client.blocking.client import LIFECYCLE_METHODS, BlockingClient, forward
from kavka.client.blocking.loop_thread import LoopThread
from kavka.client.consumer import Consumer as AsyncConsumer
from kavka.client.consumer import ConsumerRecord, FetchedBatches, RebalanceListener
from kavka.client.consumer.group.rebalance_listener import checked_listener
from kavka.ids import TopicPartition
from kavka.io import Clock, Network, Random

if TYPE_CHECKING:
    from kavka.client.blocking.signatures import ConsumerMethods
else:
    ConsumerMethods = object  # the methods that `forward` adds


class _CallerThreadListener(RebalanceListener):
    """Calls a user's listener outside of the loop; coroutines stay there."""

    def __init__(self, thread: LoopThread, listener: RebalanceListener) -> None:
        self._thread = thread
        self._listener = listener

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(self._listener.on_revoked, partitions)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(self._listener.on_assigned, partitions)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(self._listener.on_lost, partitions)

    async def _call(
        self,
        method: Callable[[Sequence[TopicPartition]], Any],
        partitions: Sequence[TopicPartition],
    ) -> None:
        if inspect.iscoroutinefunction(method):
            await method(partitions)
            return
        result = await self._thread.call_user(method, partitions)
        if inspect.isawaitable(result):
            await result


@forward(AsyncConsumer, LIFECYCLE_METHODS | {"commit_soon", "go_back"})
class Consumer(BlockingClient, ConsumerMethods):
    """`kavka.client.Consumer` for threads; iterating gives records.

    Listeners are called in the thread that waits in `poll`, `unsubscribe` or `close`, and may use the consumer.
    """

    _client_class = AsyncConsumer

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Connect."""
        self._iterating = threading.Lock()
        super().__init__(config, network=network, clock=clock, random=random)

    def close(self, timeout_ms: int = 30_000) -> None:
        """Commit if so configured, leave the group and close, within `timeout_ms`.

        While an exception is handled, the record that an iteration returned last does not count as processed.
        """
        timeout(timeout_ms)  # it raises for what is no time
        if sys.exc_info()[0] is not None:
            self._async.iteration.put_back_last()
        self._close_once({"timeout_ms": timeout_ms})

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics as `kavka.client.Consumer.subscribe`."""
        thread = self._require_thread()
        outside = None
        if listener is not None:
            outside = _CallerThreadListener(thread, checked_listener(listener))
        thread.call(self._async.subscribe, topics, pattern=pattern, listener=outside)

    def poll(self, timeout_ms: int = 1000, max_records: int | None = None) -> list[FetchedBatches]:
        """Return what is fetched, as `kavka.client.Consumer.poll`."""
        thread = self._require_thread()
        found: list[FetchedBatches] = thread.run(self._async.poll, timeout_ms, max_records)
        for batches in found:
            if batches.go_back is not None:
                batches.go_back = partial(_go_back, thread, batches.go_back)
        return found

    def __iter__(self) -> Self:
        """Iterate over records without end; each counts as consumed when it is returned."""
        self._require_thread()
        return self

    def __next__(self) -> ConsumerRecord:
        """Return the next record. Raise what `poll` raises, and RecordDeserializationError."""
        self._require_thread()
        record: ConsumerRecord
        for record in self._async.iteration.at_hand:
            return record
        with self._iterating:
            record = self._require_thread().run(self._async.__anext__)
            return record


def _go_back(
    thread: LoopThread,
    go_back: Callable[..., bool],
    topic_partition: TopicPartition,
    position: int,
    offset: int,
) -> bool:
    """Move a position back in the loop's thread, wherever the batches are decoded."""
    if thread.is_current():
        return go_back(topic_partition, position, offset)
    return thread.call(go_back, topic_partition, position, offset)
