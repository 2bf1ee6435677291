"""The group coordinator over its partitions: what becomes of it when they are damaged, gone, or not its own."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from kavka.core.shards import partition_for
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kavka.wire.records.batch import BatchBuilder
from support.one_broker import SILENT, Run, Served

PARTITIONS = 3


def offsets_replica(served: Served, group: str) -> Any:
    topic_partition = TopicPartition("__consumer_offsets", partition_for(group, PARTITIONS))
    return served.broker.replica_manager.find(topic_partition)


async def find(served: Served, group: str) -> Any:
    return await served.send(FindCoordinatorRequest(key=group), 3)


async def commit(served: Served, group: str, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    response = await served.send(OffsetCommitRequest(group_id=group, topics=[topic]), 8)
    code: int = response.topics[0].partitions[0].error_code
    return code


async def committed(served: Served, group: str) -> tuple[int, int]:
    """Return the error of the group and its offset, after its shard has been loaded."""
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    for _ in range(1_000):
        response = await served.send(OffsetFetchRequest(group_id=group, topics=[topic]), 7)
        if response.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            break
        await asyncio.sleep(0)
    rows = [p.committed_offset for t in response.topics for p in t.partitions]
    return response.error_code, rows[0] if rows else -1


def test_damage_among_the_offsets_does_not_keep_a_group_loading(run: Run) -> None:
    async def before(served: Served) -> None:
        await served.topic("t")
        await find(served, "g")
        assert await commit(served, "g", 5) == ErrorCode.NONE
        damage = BatchBuilder()
        damage.append(b"\x00\x01\x7f", b"", 0)
        assert offsets_replica(served, "g").append_internal(damage.build()).error is ErrorCode.NONE

    async def after(served: Served) -> None:
        assert await committed(served, "g") == (ErrorCode.NONE, 5)

    run(before)
    run(after)


def test_groups_of_a_failed_directory_have_no_coordinator(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        group = "g0"
        await find(served, group)
        names = (f"g{number}" for number in range(100))
        group = next(g for g in names if "/two/" in offsets_replica(served, g).log.path)
        assert await commit(served, group, 5) == ErrorCode.NONE
        offsets_replica(served, group).log.directory.fail(OSError(errno.EIO, "Input/output error"))
        assert await committed(served, group) == (ErrorCode.NOT_COORDINATOR, -1)
        assert (await find(served, group)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(story, log__dirs=f"{tmp_path}/one,{tmp_path}/two")


def test_a_commit_that_is_not_replicated_in_time_is_refused_and_counts_when_it_is(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await find(served, "g")
        assert await commit(served, "g", 5) == ErrorCode.NONE
        await served.add_silent_follower(offsets_replica(served, "g"))
        assert await commit(served, "g", 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await committed(served, "g") == (ErrorCode.NONE, 5)
        end_offset = offsets_replica(served, "g").log.log_end_offset
        assert end_offset == 2
        offsets_replica(served, "g").partition.followers[SILENT].log_end_offset = end_offset
        served.broker.replica_manager.metadata_changed((), are_brokers_others=True)
        assert await committed(served, "g") == (ErrorCode.NONE, 6)

    run(story, offsets__commit__timeout__ms="20")


def test_the_topic_of_transactions_holds_no_groups(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await find(served, "g")
        other = CreateTopicsRequestTopic(
            name="__transaction_state", num_partitions=PARTITIONS, replication_factor=1
        )
        created = await served.send(CreateTopicsRequest(topics=[other], timeout_ms=5000))
        assert created.topics[0].error_code == ErrorCode.NONE
        assert await commit(served, "g", 5) == ErrorCode.NONE
        assert offsets_replica(served, "g").log.log_end_offset == 1
        assert await committed(served, "g") == (ErrorCode.NONE, 5)

    run(story)


@pytest.mark.parametrize("retention_ms", [2**63 - 1, -(2**63), 0])
def test_a_retention_beyond_all_time_is_kept_within_the_logs_bits(
    run: Run, retention_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        await served.create("t")
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
        request = OffsetCommitRequest(group_id="g", topics=[topic], retention_time_ms=retention_ms)
        await find(served, "g")
        assert await commit(served, "g", 0) == ErrorCode.NONE
        response = await served.send(request, 2)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE

    run(story)
    assert "request failed" not in caplog.text
