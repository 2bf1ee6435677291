"""Subscriptions and assignments beside aiokafka's."""

from __future__ import annotations

from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment as TheirAssignment
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata as TheirSubscription

from kavka.wire.consumer_protocol import (
    Assignment,
    ConsumerProtocolTopic,
    Subscription,
    encode_assignment,
    encode_subscription,
)

OWNED = [ConsumerProtocolTopic(topic="t", partitions=[0, 2])]


def test_bytes_equal_those_of_aiokafka() -> None:
    ours = encode_subscription(Subscription(topics=["t"], user_data=b"x"), 0)
    assert ours == TheirSubscription(0, ["t"], b"x").encode()
    ours = encode_assignment(Assignment(assigned_partitions=OWNED, user_data=b""), 0)
    assert ours == TheirAssignment(0, [("t", [0, 2])], b"").encode()
