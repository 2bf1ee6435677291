"""A fault that a test has put in, until it takes it out again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from kavka.testing.waiting import wait_for

__tracebackhide__ = True  # pytest shows the line of the test that called


class Fault:
    """In force until `remove`, the end of its `with` block, or the end of the test."""

    def __init__(
        self, text: str, remove: Callable[[], object], hits: Callable[[], int] | None
    ) -> None:
        """See `kavka.testing.cluster.Cluster`."""
        self._text = text
        self._remove = remove
        self._hits = hits

    @property
    def hits(self) -> int:
        """The number of requests that have met it so far."""
        if self._hits is None:
            raise RuntimeError(f"{self._text}: hits are counted for faults of requests only")
        return self._hits()

    def wait_until_hit(self, times: int = 1, *, timeout_s: float = 10.0) -> None:
        """Wait until so many requests have met it."""
        wait_for(lambda: self.hits >= times, self._awaited(times), timeout_s=timeout_s)

    def _awaited(self, times: int) -> Callable[[], str]:
        return lambda: f"{self._text} to meet {times} requests, it has met {self.hits}"

    def remove(self) -> None:
        """End it."""
        self._remove()

    def __enter__(self) -> Self:
        """Be removed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove."""
        self.remove()

    def __repr__(self) -> str:
        """Show what it is."""
        return f"<fault: {self._text}>"
