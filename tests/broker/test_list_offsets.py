"""ListOffsets: allowed requests by version."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from kavka.wire.records.compression import Compression
from support.one_broker import Run, Served

CONSUMER, DEBUGGER, FOLLOWER = -1, -2, 1
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
NEWEST = 9


async def ask(
    served: Served,
    timestamp: int,
    version: int = NEWEST,
    *,
    replica_id: int = CONSUMER,
    epoch: int = -1,
    isolation_level: int = 0,
    times: int = 1,
    **old: int,
) -> list[Any]:
    partition = ListOffsetsRequestPartition(
        partition_index=0, timestamp=timestamp, current_leader_epoch=epoch, **old
    )
    topic = ListOffsetsRequestTopic(name="t", partitions=[partition] * times)
    request = ListOffsetsRequest(
        replica_id=replica_id, isolation_level=isolation_level, topics=[topic]
    )
    found: list[Any] = (await served.send(request, version)).topics[0].partitions
    return found


@pytest.mark.parametrize(
    ("timestamp", "first"),
    [(LATEST, 1), (EARLIEST, 1), (MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9)],
)
def test_a_special_timestamp_is_known_from_its_version_on(
    run: Run, timestamp: int, first: int
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        for version in range(1, NEWEST + 1):
            (found,) = await ask(served, timestamp, version)
            known = version >= first
            code = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION
            assert found.error_code == code, version
            if not known:
                assert (found.offset, found.timestamp) == (-1, -1)

    run(story)


@pytest.mark.parametrize("version", [1, 9])
def test_an_unknown_special_timestamp_is_refused(run: Run, version: int) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        (found,) = await ask(served, -6, version)
        assert found.error_code == ErrorCode.UNSUPPORTED_VERSION

    run(story)


@pytest.mark.slow
def test_version_0_finds_no_segment_before_the_beginning_of_time(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a")
        (found,) = await ask(served, -3, 0)
        assert (found.error_code, found.old_style_offsets) == (ErrorCode.NONE, [])
        (found,) = await ask(served, LATEST, 0, max_num_offsets=9)
        assert found.old_style_offsets == [1, 0]

    run(story)


def test_a_partition_that_is_named_twice_is_refused_twice(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        found = await ask(served, LATEST, times=2)
        assert [p.error_code for p in found] == [ErrorCode.INVALID_REQUEST] * 2

    run(story)


@pytest.mark.parametrize("timestamp", [LATEST, EARLIEST, MAX_TIMESTAMP, 0])
def test_another_leader_epoch_is_refused(run: Run, timestamp: int) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        partition = served.broker.replica_manager.find(TopicPartition("t", 0)).partition
        partition.leader_epoch = 5
        for epoch, code in (
            (4, ErrorCode.FENCED_LEADER_EPOCH),
            (5, ErrorCode.NONE),
            (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ):
            (found,) = await ask(served, timestamp, epoch=epoch)
            assert found.error_code == code, epoch

    run(story)


def test_each_asker_sees_its_end_of_the_log(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a", b"b", b"c", b"d")
        partition = served.broker.replica_manager.find(TopicPartition("t", 0)).partition
        partition.high_watermark, partition.first_unstable_offset = 3, 2

        async def end(**asked: Any) -> int:
            (found,) = await ask(served, LATEST, **asked)
            offset: int = found.offset
            return offset

        assert await end() == 3
        assert await end(isolation_level=1) == 2
        assert await end(replica_id=FOLLOWER, isolation_level=1) == 4
        assert await end(replica_id=DEBUGGER) == 4
        (beyond,) = await ask(served, 1_700_000_000_000, isolation_level=1)
        assert beyond.offset == 0

    run(story)


def test_a_new_leader_does_not_return_an_end_that_may_go_back(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a", b"b")
        partition = served.broker.replica_manager.find(TopicPartition("t", 0)).partition
        partition.leader_epoch_start_offset, partition.high_watermark = 2, 1
        for version, code in (
            (4, ErrorCode.LEADER_NOT_AVAILABLE),
            (5, ErrorCode.OFFSET_NOT_AVAILABLE),
        ):
            for timestamp in (LATEST, 1_700_000_000_001):
                (found,) = await ask(served, timestamp, version)
                assert (found.error_code, found.offset) == (code, -1)
        for timestamp, offset in ((EARLIEST, 0), (1_700_000_000_000, 0)):
            (found,) = await ask(served, timestamp)
            assert (found.error_code, found.offset) == (ErrorCode.NONE, offset)
        (found,) = await ask(served, LATEST, replica_id=FOLLOWER)
        assert (found.error_code, found.offset) == (ErrorCode.NONE, 2)

    run(story)


def test_times_are_looked_up_in_the_pool_one_after_the_other(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compressed batch is decompressed for each; a request may name thousands of partitions."""

    async def story(served: Served) -> None:
        await served.create("t", 5)
        for partition in range(5):
            values = [bytes(300_000)] * 3
            await served.produce("t", *values, partition=partition, compression=Compression.ZSTD)
        disk = served.broker.environment.disk
        run_in_pool, running, seen = disk.run, [0], [0]

        async def watched(*call: Any) -> Any:
            running[0] += 1
            seen.append(running[0])
            try:
                return await run_in_pool(*call)
            finally:
                running[0] -= 1

        monkeypatch.setattr(disk, "run", watched)
        rows = [ListOffsetsRequestPartition(partition_index=n, timestamp=1) for n in range(5)]
        topics = [ListOffsetsRequestTopic(name="t", partitions=rows)]
        found = await served.send(ListOffsetsRequest(topics=topics), NEWEST)
        assert [row.offset for row in found.topics[0].partitions] == [0] * 5
        assert len(seen) > 5
        assert max(seen) == 1

    run(story)
