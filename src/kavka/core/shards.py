"""Mapping of ids to shards: Java's string hash, over the partitions of an internal topic.

Group ids are spread over `__consumer_offsets`, transactional ids over `__transaction_state`, in the same way.
"""

from __future__ import annotations

from functools import lru_cache
from struct import unpack


def java_string_hash(text: str) -> int:
    """Return `String.hashCode()`: over UTF-16 units, in signed 32 bits."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in unpack(f">{len(data) // 2}H", data):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


@lru_cache(4096)  # an id is looked up for each of its requests
def partition_for(coordinated_id: str, partitions: int) -> int:
    """Return the partition of the internal topic that holds a group or a transactional id.

    As `Utils.abs`, which takes the smallest integer to 0.
    """
    value = java_string_hash(coordinated_id)
    return 0 if value == -(2**31) else abs(value) % partitions
