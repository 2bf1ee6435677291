"""Topics that tools of Kafka before 2.8 wrote have no id in their znodes (KIP-516)."""

from __future__ import annotations

import json

from kavka.core.controller.events import AlterPartitionRequested, IsrChange, TopicsChanged
from kavka.core.controller.replies import IsrReply
from kavka.core.znodes import Create, SetData
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, TopicId, TopicPartition
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import TopicNode
from support.stories.controller_world import World

OLD = TopicPartition("old", 0)
PATH = znodes.topic_path("old")
DATA = json.dumps({"version": 1, "partitions": {"0": [1, 2]}}).encode()


def ruled(*, has_topic: bool = False) -> World:
    world = World()
    if has_topic:
        world.must_write(Create(PATH, DATA))
    world.start(1)
    world.start(2)
    world.elect()
    return world


def stored_id(world: World) -> TopicId:
    return TopicNode.decode(world.tree.data(PATH) or b"").topic_id


def shrunk(world: World, topic_id: TopicId) -> ErrorCode:
    """Return what a leader hears that proposes a smaller set, as AlterPartition 2 does: by the id alone."""
    token = world.next_token()
    change = IsrChange("", 0, 0, 0, (1,), topic_id=topic_id)
    world.handle(AlterPartitionRequested(token, 1, world.brokers[1].epoch, [change]))
    reply = world.replies[token]
    assert isinstance(reply, IsrReply)
    return reply.outcomes[0].error


def test_topic_that_appears_without_an_id_gets_one() -> None:
    world = ruled()
    world.must_write(Create(PATH, DATA))
    world.announce()
    topic_id = stored_id(world)
    assert topic_id != NO_TOPIC_ID
    assert world.machine.state.topics["old"].topic_id == topic_id
    assert shrunk(world, topic_id) is ErrorCode.NONE


def test_topic_without_an_id_gets_one_from_the_next_controller() -> None:
    world = ruled(has_topic=True)
    topic_id = stored_id(world)
    assert topic_id != NO_TOPIC_ID
    assert shrunk(world, topic_id) is ErrorCode.NONE
    world.elect()
    assert stored_id(world) == topic_id


def test_id_is_written_though_the_topic_changes_at_the_same_time() -> None:
    world = ruled()
    world.must_write(Create(PATH, DATA))
    read = world.read_topic("old")
    more = json.dumps({"version": 1, "partitions": {"0": [1, 2], "1": [2, 1]}}).encode()
    world.must_write(SetData(PATH, more))
    world.handle(TopicsChanged({"old": read}))
    world.handle(TopicsChanged({"old": world.read_topic("old")}))
    topic = world.machine.state.topics["old"]
    assert stored_id(world) == topic.topic_id != NO_TOPIC_ID
    assert sorted(topic.leadership) == [0, 1]


def test_topic_whose_id_a_tool_wrote_over_gets_it_back() -> None:
    world = ruled(has_topic=True)
    topic_id = stored_id(world)
    world.must_write(SetData(PATH, DATA))
    world.handle(TopicsChanged({"old": world.read_topic("old")}))
    assert stored_id(world) == topic_id
    assert world.machine.state.topics["old"].topic_id == topic_id
