"""Events that are published when a partition changes, and the order in which its subscribers are notified."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.partitions.partition_events import (
    PartitionChange,
    PartitionEvent,
    PartitionEvents,
)
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from support.one_broker import Run, Served

T = TopicPartition("t", 0)


def test_subscribers_are_notified_of_their_changes_in_the_order_in_which_they_subscribed() -> None:
    events, noted = PartitionEvents(), list[str]()
    failed, deleted = PartitionChange.LOG_FAILED, PartitionChange.DELETED
    events.subscribe(lambda event: noted.append(f"first {event.change.name}"), failed, deleted)
    events.subscribe(lambda event: noted.append(f"second {event.change.name}"), deleted)
    events.subscribe(lambda event: noted.append(f"third {event.change.name}"), failed, deleted)
    replica: Any = SimpleNamespace(topic_partition=T)
    events.publish(failed, replica)
    events.publish(deleted, replica)
    assert noted == ["first LOG_FAILED", "third LOG_FAILED"] + [
        f"{place} DELETED" for place in ("first", "second", "third")
    ]


def test_subscriber_to_one_topics_high_watermarks_comes_behind_those_to_all() -> None:
    events, noted = PartitionEvents(), list[tuple[str, TopicPartition]]()
    events.subscribe_to_high_watermarks(lambda moved: noted.append(("own", moved)), "t")
    events.subscribe_to_high_watermarks(lambda moved: noted.append(("all", moved)))
    other = TopicPartition("u", 0)
    events.high_watermark_moved(T)
    events.high_watermark_moved(other)
    assert noted == [("all", T), ("own", T), ("all", other)]


@pytest.mark.parametrize(
    ("change", "order"),
    [
        (PartitionChange.HOSTED, "resume_move"),
        (
            PartitionChange.ROLE_CHANGED,
            "stop_fetching notify_replica coordinate check_produces release_fetches begin_replication",
        ),
        (PartitionChange.STOPPED, "stop_fetching"),
        (PartitionChange.RESUMED, "begin_replication"),
        (
            PartitionChange.LOG_FAILED,
            "clear_leader stop_fetching notify_replica coordinate check_produces release_fetches",
        ),
        (
            PartitionChange.DELETED,
            "stop_fetching notify_replica coordinate check_produces release_fetches",
        ),
        (PartitionChange.LOG_REPLACED, "check_produces"),
        (PartitionChange.LOW_WATERMARK_MOVED, "check_produces"),
    ],
)
def test_parts_are_notified_in_one_order(run: Run, change: PartitionChange, order: str) -> None:
    async def story(served: Served) -> None:
        subscribers = served.broker.partition_events._subscribers[change]
        assert " ".join(each.__name__.lstrip("_") for each in subscribers) == order

    run(story)


def test_life_of_a_partition_is_published(run: Run) -> None:
    async def story(served: Served) -> None:
        noted: list[PartitionEvent] = []
        served.broker.partition_events.subscribe(noted.append, *PartitionChange)
        await served.topic("t")
        replica_manager = served.broker.replica_manager
        replica = replica_manager.find(T)
        assert await replica_manager.stop(T, -2, delete=True) is ErrorCode.NONE
        assert [(event.change.name, event.replica is replica) for event in noted] == [
            ("HOSTED", True),
            ("ROLE_CHANGED", True),
            ("DELETED", True),
        ]
        assert not noted[1].stays_leader
        assert replica_manager.find(T) is not replica

    run(story)


def test_replica_that_is_not_hosted_is_stopped_without_an_event(run: Run) -> None:
    async def story(served: Served) -> None:
        noted: list[PartitionEvent] = []
        served.broker.partition_events.subscribe(noted.append, *PartitionChange)
        for delete in (False, True):
            code = await served.broker.replica_manager.stop(T, -2, delete=delete)
            assert code is ErrorCode.NONE
        assert noted == []

    run(story)


def test_lone_broker_makes_neither_replication_nor_moves_nor_coordinators(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        lazy = served.broker.lazy
        assert served.broker.replication_if_started is None
        assert (lazy.alter_log_dirs.made, lazy.groups.made, lazy.transactions.made) == (None,) * 3
        assert served.broker.coordinators == {}

    run(story)
