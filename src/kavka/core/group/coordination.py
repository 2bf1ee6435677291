"""Which shard a group belongs to: Java's string hash, over the partitions of `__consumer_offsets`."""

from __future__ import annotations

from struct import unpack


def java_string_hash(text: str) -> int:
    """Return `String.hashCode()`: over UTF-16 units, in signed 32 bits."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in unpack(f">{len(data) // 2}H", data):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(group_id: str, partitions: int) -> int:
    """Return the partition of `__consumer_offsets` that holds the group.

    As `Utils.abs`, which takes the smallest integer to 0.
    """
    value = java_string_hash(group_id)
    return 0 if value == -(2**31) else abs(value) % partitions
