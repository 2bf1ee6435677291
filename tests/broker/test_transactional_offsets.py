"""Offsets in transactions, at the partition that keeps a group: which count, and when."""

from __future__ import annotations

import asyncio
import errno

import pytest

from kavka.broker.coordination.group_shard_runtime import GroupCounts, GroupShardRuntime
from kavka.broker.partitions.batch_decoder import BatchDecoder
from kavka.broker.partitions.replica import Replica
from kavka.core.group.group import MembersMemory
from kavka.core.group.settings import GroupSettings
from kavka.core.shards import partition_for
from kavka.errors import ErrorCode
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.records.compression import Compression
from kavka.wire.records.control import ControlType, EndMarker
from kavka.wire.records.header import walk_complete
from support.one_broker import Served
from support.transactional_producer import (
    NONE,
    SETTINGS,
    TRIES,
    Producer,
    Run,
    group_offset,
    replica,
)


def another_runtime(served: Served, where: Replica) -> GroupShardRuntime:
    """Return a second shard over a partition of __consumer_offsets, which has not begun to load."""
    broker = served.broker
    return GroupShardRuntime(
        where,
        GroupSettings(),
        Compression.NONE,
        5_000,
        broker.clock,
        BatchDecoder(broker.environment.disk),
        MembersMemory(),
        GroupCounts(),
    )


def test_offsets_count_when_their_transaction_is_committed(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add_offsets()
        assert await producer.commit_offset(5) == NONE
        assert await group_offset(served) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        assert await group_offset(served, stable=False) == (NONE, -1)
        await producer.ended(committed=True)
        assert await group_offset(served) == (NONE, 5)
        await producer.add_offsets()
        assert await producer.commit_offset(6) == NONE
        await producer.ended(committed=False)
        assert await group_offset(served) == (NONE, 5)

    run(story, **SETTINGS)


def test_pending_offsets_survive_a_restart(run: Run) -> None:
    names: list[tuple[int, int]] = []

    async def before(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add_offsets()
        assert await producer.commit_offset(5) == NONE
        await producer.ended(committed=True)
        await producer.add_offsets()
        assert await producer.commit_offset(6) == NONE
        await producer.ended(committed=False)
        await producer.add_offsets()
        assert await producer.commit_offset(7) == NONE
        names.append((producer.producer_id, producer.epoch))

    async def after(served: Served) -> None:
        assert await group_offset(served) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        assert await group_offset(served, stable=False) == (NONE, 5)
        await Producer(served, "x", *names[0]).ended(committed=True)
        assert await group_offset(served) == (NONE, 7)

    async def again(served: Served) -> None:
        assert await group_offset(served) == (NONE, 7)

    run(before, **SETTINGS)
    run(after, **SETTINGS)
    run(again, **SETTINGS)


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_offsets_of_a_group_that_takes_no_part_are_refused(
    run: Run, version: int, code: ErrorCode
) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await served.send(FindCoordinatorRequest(key="g"), 3)
        assert await producer.commit_offset(5, version) == code
        assert await group_offset(served) == (NONE, -1)

    run(story, **SETTINGS)


def test_offsets_of_an_unknown_member_are_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add_offsets()
        code = await producer.commit_offset(5, generation_id=3, member_id="m")
        assert code == ErrorCode.UNKNOWN_MEMBER_ID
        assert await group_offset(served) == (NONE, -1)

    run(story, **SETTINGS)


def test_offsets_in_transactions_are_stored_as_kafka_stores_them(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add_offsets()
        await producer.commit_offset(5)
        await producer.ended(committed=True)
        where = replica(served, "__consumer_offsets", partition_for("g", 3))
        read = where.log.read(0, 1 << 20, where.log.log_end_offset, True)
        data = read.range.file.read_at(read.range.length, read.range.position)
        read.range.release()
        stored, marker = walk_complete(data)
        assert stored.is_transactional
        assert (stored.producer_id, stored.producer_epoch) == (producer.producer_id, 0)
        assert stored.base_sequence == 0
        assert marker.is_control

    run(story, **SETTINGS)


@pytest.mark.parametrize("iterations", range(4))
def test_a_marker_that_comes_while_a_shard_is_loading_counts(run: Run, iterations: int) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add_offsets()
        assert await producer.commit_offset(5) == NONE
        where = replica(served, "__consumer_offsets", partition_for("g", 3))
        runtime = another_runtime(served, where)
        runtime.start()
        for _ in range(iterations):
            await asyncio.sleep(0)
        marker = EndMarker(ControlType.COMMIT, 0)
        outcome = where.append_marker(producer.producer_id, producer.epoch, marker)
        runtime.marker_appended(producer.producer_id, committed=True, end_offset=outcome.end_offset)
        for _ in range(TRIES):
            if not runtime.machine.is_loading:
                break
            await asyncio.sleep(0)
        (_stored, offsets, undecided) = runtime.machine.durable()["g"]
        assert [value.offset for value in offsets.values()] == [5]
        assert not undecided
        runtime.stop()

    run(story, **SETTINGS)


def test_a_shard_that_cannot_be_loaded_keeps_no_markers(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add_offsets()
        assert await producer.commit_offset(5) == NONE
        where = replica(served, "__consumer_offsets", partition_for("g", 3))
        runtime = another_runtime(served, where)
        where.log.directory.fail(OSError(errno.EIO, "Input/output error"))
        runtime.start()
        assert runtime._loading is not None
        for _ in range(3):
            runtime.marker_appended(producer.producer_id, committed=True, end_offset=2)
        assert runtime._ends_while_loading
        await runtime._loading
        assert runtime.machine.is_loading
        assert not runtime._ends_while_loading
        runtime.marker_appended(producer.producer_id, committed=True, end_offset=2)
        assert not runtime._ends_while_loading
        runtime.stop()

    run(story, **SETTINGS)
