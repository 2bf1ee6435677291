"""A purgatory with thousands of waiting requests leaves the loop to others between its checks."""

from __future__ import annotations

import asyncio

from kavka.broker.requests.purgatory import Purgatory
from kavka.core.delayed_operations import CHECKED_KEYS


class Clock:
    """A clock that is moved by checks."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def tick_ms(self) -> int:
        return self.ms

    def work_ns(self) -> int:
        return self.tick_ms() * 1_000_000


class Slow:
    """A request whose check takes two milliseconds."""

    def __init__(self, clock: Clock, woken: list[Slow]) -> None:
        self._clock = clock
        self._woken = woken
        self.checks = 0

    def is_complete(self) -> bool:
        self._clock.ms += 2  # a slice of the loop's time
        self.checks += 1
        return True

    def wake(self) -> None:
        self._clock.ms += 1
        self._woken.append(self)


def test_requests_beyond_the_bound_are_completed_in_later_iterations() -> None:
    async def run() -> None:
        clock = Clock()
        purgatory, woken = Purgatory(clock, 100_000), list[Slow]()
        requests = [Slow(clock, woken) for _ in range(CHECKED_KEYS + 2)]
        for request in requests:
            purgatory.wait(["t"], 2**31 - 1, request)
        purgatory.check_and_complete("t")
        for late in range(3):
            assert woken == requests[: CHECKED_KEYS + late]
            await asyncio.sleep(0)
        assert len(purgatory) == 0
        assert [request.checks for request in requests] == [1] * len(requests)
        purgatory.close()

    asyncio.run(run())


def test_requests_with_the_same_deadline_expire_in_several_iterations() -> None:
    async def run() -> None:
        clock = Clock()
        purgatory, woken = Purgatory(clock, 100_000), list[Slow]()
        requests = [Slow(clock, woken) for _ in range(10)]
        for request in requests:
            purgatory.wait(["t"], 0, request)
        seen = []
        while len(woken) < len(requests):
            await asyncio.sleep(0)
            seen.append(len(woken))
        assert sorted(set(seen) - {0}) == [2, 4, 6, 8, 10]
        assert woken == requests
        assert len(purgatory) == 0
        purgatory.close()

    asyncio.run(run())
