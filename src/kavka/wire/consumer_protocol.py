"""Metadata that consumers exchange through the coordinator: subscriptions and assignments (KIP-429, KIP-881).

The bytes travel as `metadata` of JoinGroup and `assignment` of SyncGroup and are opaque to brokers, except that
a broker asks which topics a group is subscribed to. A reader takes a newer version for its newest one: versions only
append fields, so what follows is skipped.
"""

from __future__ import annotations

from typing import TypeVar

from kavka.io import Buffer
from kavka.wire.codec import CorruptFrame, decode_front
from kavka.wire.schema import binary, field, i32, message, schema_of, string, struct
from kavka.wire.versioned import encode_versioned, version_of

M = TypeVar("M")

NEWEST_VERSION = 3


@struct
class ConsumerProtocolTopic:
    """Partitions of a topic."""

    topic: string = field()
    partitions: list[i32] = field()


@message(versions="0-3")
class Subscription:
    """A member's subscribed topics and the partitions that it owns."""

    topics: list[string] = field()
    """By name; a member that subscribes by pattern sends the names that match."""
    user_data: binary | None = field(nullable="0+", default=None)
    """The assignor's own: the sticky assignor keeps the former assignment here."""
    owned_partitions: list[ConsumerProtocolTopic] = field("1+", ignorable=True)
    """Partitions that the member owns while it joins, so that a cooperative assignor moves few."""
    generation_id: i32 = field("2+", default=-1, ignorable=True)
    """The generation in which it got them; -1 for none. The newest claim wins."""
    rack_id: string | None = field("3+", nullable="3+", default=None, ignorable=True)


@message(versions="0-3")
class Assignment:
    """The partitions that the group leader assigns to a member."""

    assigned_partitions: list[ConsumerProtocolTopic] = field()
    user_data: binary | None = field(nullable="0+", default=None)
    """The assignor's own."""


def encode_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """Return the bytes for `metadata` of JoinGroup."""
    return encode_versioned(subscription, version)


def decode_subscription(buffer: Buffer) -> Subscription:
    """Return what `encode_subscription` of any consumer made. Raise CorruptFrame."""
    return _decode(Subscription, buffer)


def encode_assignment(assignment: Assignment, version: int = NEWEST_VERSION) -> bytes:
    """Return the bytes for `assignment` of SyncGroup."""
    return encode_versioned(assignment, version)


def decode_assignment(buffer: Buffer) -> Assignment:
    """Return what `encode_assignment` of any leader made. Raise CorruptFrame."""
    return _decode(Assignment, buffer)


def _decode(cls: type[M], buffer: Buffer) -> M:
    name = schema_of(cls).name
    version = version_of(name, buffer)
    if version < 0:
        raise CorruptFrame(name, version, 0, "the version is negative")
    decoded, _ = decode_front(cls, min(version, NEWEST_VERSION), buffer, 2)
    return decoded
