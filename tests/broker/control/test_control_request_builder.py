"""The states of partitions in UpdateMetadata."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kavka.broker.control import control_request_builder
from kavka.broker.control.control_request_builder import ControlRequestBuilder
from kavka.core.controller.broker_updates import PartitionSet, PendingUpdates
from kavka.core.controller.events import Snapshot
from kavka.core.controller.machine import ControllerMachine
from kavka.core.controller.settings import ControllerSettings
from kavka.core.controller.state import Deletion, FinishingReassignment, LiveBroker, TopicRead
from kavka.ids import TopicId, TopicPartition
from kavka.wire.messages.update_metadata import UpdateMetadataRequestPartition
from kavka.wire.stored.znodes import StateNode, TopicNode

ASSIGNED = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}


@pytest.fixture
def machine() -> ControllerMachine:
    states = {index: (StateNode(row[0], 4, 1, row), 7) for index, row in ASSIGNED.items()}
    topics = {
        name: TopicRead(TopicNode(TopicId(name.encode().ljust(16)), ASSIGNED), 0, states)
        for name in ("a", "b")
    }
    brokers = tuple(LiveBroker(broker, 1) for broker in (1, 2, 3))
    return ControllerMachine(1, Snapshot(brokers, topics), ControllerSettings())


def shown(machine: ControllerMachine) -> dict[tuple[str, int], UpdateMetadataRequestPartition]:
    wanted = [TopicPartition(name, index) for name in ("b", "a", "gone") for index in (2, 0, 1, 9)]
    request = ControlRequestBuilder(machine, 1, "PLAINTEXT", 1).update_metadata(wanted, {})
    rows = [(topic, row) for topic in request.topic_states for row in topic.partition_states]
    found = {(topic.topic_name, row.partition_index): row for topic, row in rows}
    assert list(found) == sorted(found)
    return found


def test_all_that_there_is_is_shown(machine: ControllerMachine) -> None:
    rows = shown(machine)
    assert list(rows) == [(name, index) for name in ("a", "b") for index in ASSIGNED]
    row = rows["a", 1]
    assert (row.leader, row.leader_epoch, row.controller_epoch, row.zk_version) == (2, 4, 1, 7)
    assert (row.replicas, row.isr, row.offline_replicas) == ([2, 3, 1], [2, 3, 1], [])


def test_replicas_of_dead_and_suspected_brokers_and_on_failed_directories_are_offline(
    machine: ControllerMachine,
) -> None:
    state = machine.state
    state.offline_replicas[1] = {TopicPartition("a", 0)}
    assert {at: row.offline_replicas for at, row in shown(machine).items() if at[0] == "a"} == {
        ("a", 0): [1],
        ("a", 1): [],
        ("a", 2): [],
    }
    del state.brokers[2]
    state.suspects.add(3)
    state.shutting_down.add(1)  # it serves until it has shut down
    rows = shown(machine)
    assert rows["a", 0].offline_replicas == [1, 2, 3]
    assert rows["b", 0].offline_replicas == [2, 3]


def test_deleted_topics_are_not_shown_and_finished_moves_are(machine: ControllerMachine) -> None:
    machine.state.deletions["b"] = Deletion(has_begun=True)
    moved = machine.state.topics["a"].assignments[0].reassign_to([1, 2])
    machine.state.topics["a"].assignments[0] = moved
    assert shown(machine)["a", 0].replicas == [1, 2, 3]
    machine.state.finishing[TopicPartition("a", 0)] = FinishingReassignment((1, 2), 4)
    rows = shown(machine)
    assert {name for name, _ in rows} == {"a"}
    assert rows["a", 0].replicas == [1, 2]


def test_very_many_partitions_are_large_work_while_the_request_is_built(
    machine: ControllerMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[bool] = []

    @contextmanager
    def large_work() -> Iterator[None]:
        began.append(True)
        yield
        began.append(False)

    monkeypatch.setattr(control_request_builder, "_LARGE", 3)
    builder = ControlRequestBuilder(machine, 1, "PLAINTEXT", 1, large_work)
    for count in (2, 3):
        wanted = PartitionSet(TopicPartition("a", index) for index in range(count))
        (request,) = builder.requests(PendingUpdates(metadata=wanted))
        assert len(request.topic_states[0].partition_states) == count
        assert began == ([] if count == 2 else [True, False])
