"""Full collections of garbage: none walks the objects of large requests, or what the broker keeps.

The collector walks all objects whenever those that are new and live on are a quarter of the others. While the
objects of a large request grow it would do so again and again, each time up to 100 ms in one go, and find nothing:
a request lives until it is answered, and its objects have no cycles. When the request is over, what is left is the
broker's own, which lives on; it is spared (`gc.freeze`), and walked again later, in a quiet moment.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Final

from kavka.broker.requests.idle_periods import collect_and_spare, wait_until_idle

_PUT_OFF: Final = 500
"""Collections of the middle generation until a full one: four million objects that live on, more than large requests
may have by default (`kavka.requests.decoded.max.bytes`). A loss of cycles meanwhile has this bound."""
_BETWEEN_S: Final = 600
_MOST_WAIT_S: Final = 3_000


class FullCollections:
    """The full collections of this process, for one broker."""

    def __init__(self) -> None:
        """Change nothing yet."""
        self._ordinary = gc.get_threshold()[2]
        self._are_in_work = False
        self._is_due = False

    def large_requests(self, are_in_work: bool) -> None:
        """Put full collections off while large requests are in work; then spare what lives from them."""
        self._are_in_work = are_in_work
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, _PUT_OFF if are_in_work else self._ordinary)
        if not are_in_work:
            gc.collect(1)  # some thousand objects: what is lost among the young ones is not spared
            gc.freeze()
            self._is_due = True

    async def catch_up(self, requests_received: Callable[[], int]) -> None:
        """Walk what was spared, every ten minutes in a moment without requests; without one for 50 minutes, at once."""
        while True:
            await asyncio.sleep(_BETWEEN_S)
            if self._is_due:
                try:
                    async with asyncio.timeout(_MOST_WAIT_S):
                        await wait_until_idle(requests_received)
                        while self._are_in_work:  # one may take long, with no request beside it
                            await wait_until_idle(requests_received)
                except TimeoutError:
                    pass  # it is never quiet, and lost cycles must not grow without end
                self._is_due = False
                collect_and_spare()
