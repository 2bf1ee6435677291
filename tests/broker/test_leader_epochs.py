"""OffsetForLeaderEpoch: ends of epochs, and refusals."""

from __future__ import annotations

import pytest

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from support.one_broker import Run, Served

NOTHING = (-1, -1)


async def ask(
    served: Served, epoch: int, *, current: int = -1, partition: int = 0
) -> tuple[int, tuple[int, int]]:
    asked = OffsetForLeaderEpochRequestPartition(
        partition=partition, current_leader_epoch=current, leader_epoch=epoch
    )
    topic = OffsetForLeaderEpochRequestTopic(topic="t", partitions=[asked])
    response = await served.send(OffsetForLeaderEpochRequest(topics=[topic]))
    (found,) = response.topics[0].partitions
    return found.error_code, (found.leader_epoch, found.end_offset)


@pytest.mark.parametrize(
    ("epoch", "response"),
    [
        (-1, NOTHING),  # an undefined epoch
        (0, (0, 2)),  # ended where epoch 3 began
        (1, (0, 2)),  # no leader had it: the one before counts
        (3, (3, 3)),  # continues: the end of the log
        (4, NOTHING),  # has not begun
    ],
)
def test_an_epoch_ends_where_the_next_begins(
    run: Run, epoch: int, response: tuple[int, int]
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a", b"b")
        replica = served.broker.replica_manager.find(TopicPartition("t", 0))
        replica.partition.leader_epoch = 3
        replica.log.assign_epoch(3, 2)
        await served.produce("t", b"c")
        assert await ask(served, epoch) == (ErrorCode.NONE, response)

    run(story)


@pytest.mark.parametrize(
    ("current", "partition", "code"),
    [
        (4, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (6, 0, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_an_older_or_newer_leader_epoch_is_refused(
    run: Run, current: int, partition: int, code: ErrorCode
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        served.broker.replica_manager.find(TopicPartition("t", 0)).partition.leader_epoch = 5
        assert await ask(served, 0, current=current, partition=partition) == (code, NOTHING)

    run(story)
