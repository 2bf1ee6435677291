"""The system's clocks and its source of random numbers."""

from __future__ import annotations

import os
import random
import time


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        return int(time.time() * 1000)

    def tick_ms(self) -> int:
        """Return milliseconds of the monotonic clock."""
        return time.monotonic_ns() // 1_000_000

    def work_ns(self) -> int:
        """Return nanoseconds of processor time of this thread."""
        return time.thread_time_ns()


class SystemRandom:
    """The machine's randomness: ids come from the kernel, jitter from a generator that it seeded."""

    __slots__ = ("_random",)

    def __init__(self) -> None:
        """Seed a generator of its own, apart from the module's."""
        self._random = random.Random(os.urandom(16))

    def random(self) -> float:
        """Return a number from 0 up to and without 1."""
        return self._random.random()

    def random_bytes(self, length: int) -> bytes:
        """Return `length` unpredictable bytes."""
        return os.urandom(length)
