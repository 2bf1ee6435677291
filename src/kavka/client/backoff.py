"""Exponential back-off with jitter. Pure."""

from __future__ import annotations

_JITTER = 0.2


def backoff_ms(attempt: int, first_ms: int, longest_ms: int, random: float) -> float:
    """Return the wait before try `attempt` (0 is the first repeat): doubling up to a bound, give or take 20% (KIP-580).

    `random` lies in 0 up to and without 1.
    """
    bare = min(first_ms * 2.0 ** min(attempt, 30), max(first_ms, longest_ms))
    return bare * (1 - _JITTER + 2 * _JITTER * random)
