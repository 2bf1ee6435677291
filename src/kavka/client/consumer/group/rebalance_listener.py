"""The listener of a consumer: what is called when its group gives or takes partitions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kavka.ids import TopicPartition


class RebalanceListener:
    """Override what is of interest; each may be a coroutine. Called inside `poll`, `close` and `unsubscribe`.

    What a method raises is raised by that call when the rebalance, or the leaving, has gone as far as it can; as in
    the Java client, the method is not called for the same partitions again.
    """

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> Any:
        """Finish with partitions that are taken away; committing here is still allowed."""

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Any:
        """Begin with partitions that are new."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> Any:
        """Note that partitions already belong to another member: nothing can be committed for them."""
        return self.on_revoked(partitions)


def checked_listener(listener: RebalanceListener) -> RebalanceListener:
    """Return a listener. Raise TypeError for a class and for what lacks a method: a rebalance would fail by it."""
    methods = ("on_assigned", "on_revoked", "on_lost")
    if isinstance(listener, type) or not all(callable(getattr(listener, m, None)) for m in methods):
        raise TypeError(f"the listener is a RebalanceListener, not {listener!r:.80}")
    return listener


async def call_listener(
    call: Callable[[Sequence[TopicPartition]], Any], partitions: Iterable[TopicPartition]
) -> None:
    """Call a method of a listener; wait for what it returns if that is a coroutine."""
    outcome = call(list(partitions))
    if inspect.isawaitable(outcome):
        await outcome
