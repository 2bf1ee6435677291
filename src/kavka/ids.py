"""Nominal ids: values that look alike and must not be mixed up."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
"""A broker's `broker.id`; 0 and up."""
TopicId = NewType("TopicId", bytes)
"""16 bytes of a topic's UUID (KIP-516)."""
Offset = NewType("Offset", int)
"""The number of a record in its partition; 0 and up."""
LeaderEpoch = NewType("LeaderEpoch", int)
"""Number of leader changes of a partition; -1 is unknown."""
ProducerId = NewType("ProducerId", int)
"""Given out by InitProducerId; -1 is none."""
ProducerEpoch = NewType("ProducerEpoch", int)
"""Fences older producers of one producer id; 0 to 32767, -1 is none."""

NO_TOPIC_ID = TopicId(bytes(16))
NO_PRODUCER_ID = ProducerId(-1)


def are_other_topics(one: TopicId, other: TopicId) -> bool:
    """Return whether these are the ids of two topics; one that is not known may be any."""
    return NO_TOPIC_ID not in (one, other) and one != other


class TopicPartition(NamedTuple):
    """A partition of a topic; prints as `topic-partition`, the name of its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return `topic-partition`."""
        return f"{self.topic}-{self.partition}"


def uuid_text(uuid: bytes) -> str:
    """Return 16 bytes as Kafka prints a UUID: 22 characters of URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of `uuid_text`. Raise ValueError when `text` is not such a UUID."""
    try:
        uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"not a UUID in URL-safe base64: {text!r}") from error
    if len(uuid) != 16:
        raise ValueError(f"not a UUID of 16 bytes: {text!r}")
    return uuid
