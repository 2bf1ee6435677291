"""Operations that wait: a produce for its replicas, a fetch for bytes, each with keys that wake it and a deadline.

Nothing is polled. After a change of a condition `check_and_complete(key)` is called, which checks the operations of
that key only. A change may concern thousands, and a check takes time in proportion to the operation's keys: what is
beyond a bound is postponed, and the runtime calls `check_postponed` between its other work. However many changes come
meanwhile, a postponed operation is checked once. The runtime sets one timer for `deadline_ms()` and calls `expire`. An
operation leaves once: returned by `check_and_complete`, `check_postponed`, `expire` or `remove_all`, or cancelled.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, KeysView
from heapq import heapify, heappop, heappush
from typing import Final, Generic, Protocol, TypeVar

CHECKED_KEYS: Final = 256
"""The most keys that the operations checked by one `check_and_complete` have together; others are postponed."""


class Operation(Protocol):
    """Something that waits. `is_complete` is asked often: it must be cheap, and change nothing that others see."""

    def is_complete(self) -> bool:
        """Return whether there is nothing left to wait for."""
        ...


O = TypeVar("O", bound=Operation)  # noqa: E741
K = TypeVar("K", bound=Hashable)


class WatchedOperation(Generic[K, O]):
    """One registered operation; keep it to cancel."""

    __slots__ = ("deadline_ms", "keys", "operation", "order")

    def __init__(self, keys: tuple[K, ...], deadline_ms: int, order: int, operation: O) -> None:
        """Note where the operation is registered; `order` breaks ties of deadlines."""
        self.keys = keys
        self.deadline_ms = deadline_ms
        self.order = order
        self.operation: O | None = operation  # None once it has left

    def __lt__(self, other: WatchedOperation[K, O]) -> bool:
        """Order by deadline, then by registration."""
        return (self.deadline_ms, self.order) < (other.deadline_ms, other.order)


class DelayedOperations(Generic[K, O]):
    """A bounded set of waiting operations."""

    def __init__(self, max_operations: int) -> None:
        """Create an empty set of at most `max_operations` delayed operations."""
        self._max_operations = max_operations
        # Invariant: a waiting is under each of its keys as long as its operation is not None. Dicts keep the order.
        self._by_key: dict[K, dict[WatchedOperation[K, O], None]] = {}
        self._by_deadline: list[WatchedOperation[K, O]] = []
        # Those to check again, in this order. Some may have left meanwhile.
        self._postponed: dict[WatchedOperation[K, O], None] = {}
        self._count = 0
        self._next_order = 0

    def __len__(self) -> int:
        """Return how many operations wait."""
        return self._count

    def register(
        self, keys: Iterable[K], deadline_ms: int, operation: O
    ) -> WatchedOperation[K, O] | None:
        """Delay `operation` until it completes or `deadline_ms`; None when the bound is reached: answer it now.

        The caller has seen that it is not complete; nothing may have happened in between.
        """
        if self._count >= self._max_operations:
            return None
        waiting = WatchedOperation(
            tuple(dict.fromkeys(keys)), deadline_ms, self._next_order, operation
        )
        self._next_order += 1
        self._count += 1
        for key in waiting.keys:
            self._by_key.setdefault(key, {})[waiting] = None
        heappush(self._by_deadline, waiting)
        return waiting

    def check_and_complete(self, key: K) -> list[O]:
        """Take out and return the operations of `key` that are complete now, oldest first, but for those postponed."""
        waitings = self._by_key.get(key)
        if waitings is None:
            return []
        done, left = [], CHECKED_KEYS
        for waiting in waitings:
            if len(waiting.keys) > left:
                self._postponed[waiting] = None
                continue
            left -= len(waiting.keys)
            if waiting.operation is not None and waiting.operation.is_complete():
                done.append(waiting)
        return [self._remove(waiting) for waiting in done]

    @property
    def has_postponed(self) -> bool:
        """Return whether `check_postponed` has something to do."""
        return bool(self._postponed)

    def check_postponed(self) -> Iterator[O | None]:
        """Check postponed operations, one in each step: take out and yield it if it is complete, None if it is not."""
        while self._postponed:
            waiting = next(iter(self._postponed))
            del self._postponed[waiting]
            if waiting.operation is not None and waiting.operation.is_complete():
                yield self._remove(waiting)
            else:
                yield None

    @property
    def keys(self) -> KeysView[K]:
        """The keys for which anything waits, as they are at each look."""
        return self._by_key.keys()

    def expire(self, now_ms: int) -> Iterator[O]:
        """Take out and yield, one by one, the operations with a deadline up to `now_ms`, in the order of deadlines."""
        while self._by_deadline and self._by_deadline[0].deadline_ms <= now_ms:
            waiting = heappop(self._by_deadline)
            if waiting.operation is not None:
                yield self._remove(waiting)

    def cancel(self, waiting: WatchedOperation[K, O]) -> bool:
        """Drop an operation after its connection is gone; False when it has left already."""
        if waiting.operation is None:
            return False
        self._remove(waiting)
        return True

    def remove_all(self, key: K) -> list[O]:
        """Take out and return everything that waits for `key`, complete or not: the partition has moved away."""
        waitings = self._by_key.get(key, {})
        return [self._remove(waiting) for waiting in list(waitings)]

    def deadline_ms(self) -> int | None:
        """Return the earliest deadline; None when nothing waits."""
        heap = self._by_deadline
        while heap and heap[0].operation is None:
            heappop(heap)
        return heap[0].deadline_ms if heap else None

    def _remove(self, waiting: WatchedOperation[K, O]) -> O:
        operation = waiting.operation
        assert operation is not None, "an operation leaves once"
        waiting.operation = None
        self._postponed.pop(waiting, None)
        self._count -= 1
        for key in waiting.keys:
            waitings = self._by_key[key]
            del waitings[waiting]
            if not waitings:
                del self._by_key[key]
        # Those that have left stay in the heap until they surface; more than half of it is too many.
        if len(self._by_deadline) > 2 * self._count + 64:
            self._by_deadline = [w for w in self._by_deadline if w.operation is not None]
            heapify(self._by_deadline)
        return operation
