"""Randomness: one stream for each purpose, all from one seed."""

from __future__ import annotations

import random


def stream(seed: int, purpose: str) -> random.Random:
    """Return the stream of `purpose`, so that a draw more in one place does not move the draws of all others."""
    return random.Random(f"{seed}/{purpose}")


class SimRandom:
    """A node's `io.Random`."""

    def __init__(self, source: random.Random) -> None:
        """Draw from `source`."""
        self._source = source

    def random(self) -> float:
        """Return a number from 0 up to and without 1."""
        return self._source.random()

    def random_bytes(self, length: int) -> bytes:
        """Return `length` bytes."""
        return self._source.randbytes(length)
