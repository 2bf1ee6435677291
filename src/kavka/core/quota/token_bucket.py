"""The token bucket of controller mutations, and its two ways of use (KIP-599).

A bucket fills with `limit` tokens a second up to the burst, `limit` times all windows. A mutation takes a token for
each partition, below zero if it must: what is large is accepted once, and waited for afterwards.

    strict      while the tokens are below zero, a mutation is refused with THROTTLING_QUOTA_EXCEEDED
    permissive  it is accepted; the client is throttled for as long as the tokens are below zero (older versions)
"""

from __future__ import annotations

from math import floor

from kavka.core.quota.rate import MAX_THROTTLE_MS, SampledRate, Windows


class TokenBucket:
    """The tokens of one entity, by a limit that may change. Times are milliseconds of one monotonic clock."""

    __slots__ = ("_filled_ms", "_tokens", "_windows", "rate")

    def __init__(self, windows: Windows) -> None:
        """Begin full."""
        self._windows = windows
        self._tokens: float | None = None
        self._filled_ms = 0
        self.rate = SampledRate(windows)
        """Mutations per second, for metrics."""

    def tokens(self, limit: float, now_ms: int) -> float:
        """Return the tokens that there are."""
        burst = self._windows.count * self._windows.seconds * limit
        if self._tokens is None:
            self._tokens = burst
        else:
            gained = limit * max(0, now_ms - self._filled_ms) / 1000
            self._tokens = min(burst, self._tokens + gained)
        self._filled_ms = now_ms
        return self._tokens

    def take(self, permits: float, limit: float, now_ms: int) -> None:
        """Take tokens, also those that there are not."""
        self._tokens = self.tokens(limit, now_ms) - permits
        self.rate.record(permits, now_ms)

    def missing_ms(self, limit: float, now_ms: int) -> int:
        """Return for how many milliseconds there are fewer tokens than none."""
        tokens = self.tokens(limit, now_ms)
        if tokens >= 0:
            return 0
        return min(MAX_THROTTLE_MS, floor(-tokens / limit * 1000 + 0.5))


class MutationQuota:
    """The quota of one request that changes topics."""

    __slots__ = ("_bucket", "_is_strict", "_limit", "_throttle_ms", "_throttled_at_ms")

    def __init__(self, bucket: TokenBucket, limit: float, *, is_strict: bool) -> None:
        """Take from `bucket`; `is_strict` for versions whose clients know THROTTLING_QUOTA_EXCEEDED."""
        self._bucket = bucket
        self._limit = limit
        self._is_strict = is_strict
        self._throttle_ms = 0
        self._throttled_at_ms = 0

    def accept(self, permits: int, now_ms: int) -> bool:
        """Return whether a mutation of so many partitions may be made, and count it then."""
        if self._is_strict and self._exceeds(now_ms):
            return False
        self._bucket.take(permits, self._limit, now_ms)
        if not self._is_strict:
            self._exceeds(now_ms)
        return True

    def throttle_ms(self, now_ms: int) -> int:
        """Return for how long the client is to wait from now on."""
        return max(0, self._throttle_ms - (now_ms - self._throttled_at_ms))

    def _exceeds(self, now_ms: int) -> bool:
        missing_ms = self._bucket.missing_ms(self._limit, now_ms)
        if missing_ms > 0:
            self._throttle_ms, self._throttled_at_ms = missing_ms, now_ms
        return missing_ms > 0
