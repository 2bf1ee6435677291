"""Requests that wait for the end of a deletion."""

from __future__ import annotations

from kavka.core.controller.events import (
    ControlResponseReceived,
    CreateTopicRequested,
    DeleteTopicRequested,
    PartitionsRead,
    TopicToCreate,
)
from kavka.core.controller.records import TopicRemoved
from kavka.core.controller.replies import DONE, TopicReply
from kavka.core.controller.step import ControllerDecision
from kavka.core.machine import SendReply
from kavka.errors import ErrorCode
from kavka.ids import TopicId, TopicPartition
from support.stories.controller_world import World

WHERE = TopicPartition("t", 0)


def removal(world: World) -> ControllerDecision:
    """Return the decision that removes the topic, not written."""
    for _ in range(10):
        decision = world.machine.tick(world.now_ms)
        if any(isinstance(record, TopicRemoved) for record in decision.records):
            return decision
    raise AssertionError("the topic is not removed")


def test_request_is_answered_though_the_removal_met_another_version() -> None:
    world = World()
    world.start(1)
    world.elect()
    topic = TopicToCreate("t", TopicId(bytes(15) + b"1"), {0: (1,)}, {})
    world.handle(CreateTopicRequested(world.next_token(), topic))
    world.slow.add(1)
    token = world.next_token()
    world.handle(DeleteTopicRequested(token, "t"))
    done = {WHERE: ErrorCode.NONE}
    world.machine.handle(
        ControlResponseReceived(1, world.brokers[1].epoch, deleted=done), world.now_ms
    )
    reply = SendReply(token, TopicReply(DONE))
    overtaken = removal(world)
    assert reply in overtaken.effects
    world.machine.version_conflict(overtaken, 0)
    world.machine.handle(PartitionsRead({}), world.now_ms)
    assert reply in removal(world).effects
