"""The topics in a consumer's subscription: the only part of the members' own bytes that a coordinator reads.

The bytes are `ConsumerProtocolSubscription`: version i16, topics as an array of strings, then more.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import error as StructError
from struct import unpack_from


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return all topics that the subscriptions name; None when one of them is not a consumer's."""
    topics: set[str] = set()
    for subscription in subscriptions:
        try:
            topics.update(_topics(subscription))
        except (StructError, ValueError):
            return None
    return frozenset(topics)


def _topics(subscription: bytes) -> list[str]:
    version, count = unpack_from(">hi", subscription, 0)
    if version < 0 or count < 0 or count > len(subscription):
        raise ValueError(f"version {version}, {count} topics")
    topics, position = [], 6
    for _ in range(count):
        (length,) = unpack_from(">h", subscription, position)
        end = position + 2 + length
        if length < 0 or end > len(subscription):
            raise ValueError(f"a topic of length {length}")
        topics.append(subscription[position + 2 : end].decode())
        position = end
    return topics
