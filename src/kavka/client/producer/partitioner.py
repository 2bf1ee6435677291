"""Partitioners: the partition of a record. Pure.

With a key: murmur2 of its bytes, exactly as the Java client, so that the same key meets the same partition with all
producers. Without: a partition is kept for `batch.size` bytes, then another one is drawn (KIP-480, KIP-794), which
makes full batches. A user's callable gets (topic, key, value, count of partitions) and returns a partition.
"""

from __future__ import annotations

from kavka.wire.records.kernel import murmur2 as murmur2


def positive_hash(key: bytes) -> int:
    """Return the hash whose remainder is the partition."""
    return murmur2(key) & 0x7FFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key among `partitions`."""
    return positive_hash(key) % partitions


class StickyChoice:
    """The partition of records without a key, for one topic."""

    __slots__ = ("_bytes", "_limit", "partition")

    def __init__(self, limit_bytes: int) -> None:
        """Change the partition after `limit_bytes`, which is `batch.size`."""
        self._limit = max(limit_bytes, 1)
        self._bytes = 0
        self.partition: int | None = None

    def choose(self, available: list[int], random: float) -> int:
        """Return the partition for the next batch; `random` draws another one when it is time."""
        if self.partition is None or self._bytes >= self._limit or self.partition not in available:
            others = [p for p in available if p != self.partition] or available
            self.partition = others[int(random * len(others))]
            self._bytes = 0
        return self.partition

    def count(self, size: int) -> None:
        """Note that `size` bytes went to the partition."""
        self._bytes += size


class RoundRobin:
    """Choose the next partition with a leader for each record, with any key."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        """Start with the first."""
        self._next = 0

    def choose(self, available: list[int]) -> int:
        """Return the next partition."""
        chosen = available[self._next % len(available)]
        self._next += 1
        return chosen
