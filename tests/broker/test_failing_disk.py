"""A disk that fails takes its partitions with it, and nothing else."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from kavka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from kavka.wire.messages.metadata import MetadataRequest
from support.one_broker import Run, Served


def fail(served: Served, topic_partition: TopicPartition) -> None:
    """Take the directory of a partition offline, as a failed write does."""
    replica = served.broker.replica_manager.find(topic_partition)
    replica.log.directory.fail(OSError(errno.EIO, "Input/output error"))


def test_only_the_partitions_of_a_failed_directory_go(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        logs = [served.broker.replica_manager.find(TopicPartition("t", p)).log for p in range(4)]
        second = next(p for p, log in enumerate(logs) if log.path.startswith(f"{tmp_path}/two"))
        first = next(p for p, log in enumerate(logs) if log.path.startswith(f"{tmp_path}/one"))
        fail(served, TopicPartition("t", second))
        refused = await served.produce("t", b"a", partition=second)
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await served.produce("t", b"a", partition=first)).error_code == ErrorCode.NONE
        (topic,) = (await served.send(MetadataRequest(topics=None))).topics
        leaders = {p.partition_index: p.leader_id for p in topic.partitions}
        assert (leaders[first], leaders[second]) == (0, -1)
        assert not served.broker.failed.done()

    directories = f"{tmp_path}/one,{tmp_path}/two"
    run(story, log__dirs=directories, num__partitions="4")


def test_a_broker_without_any_directory_asks_to_be_stopped(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        fail(served, TopicPartition("t", 0))
        assert "Input/output error" in served.broker.failed.result()

    run(story)


async def where_on(served: Served, directory: Path) -> int:
    """Return a partition of `t` in the directory."""
    logs = [served.broker.replica_manager.find(TopicPartition("t", p)).log for p in range(4)]
    return next(p for p, log in enumerate(logs) if log.path.startswith(f"{directory}/"))


def test_deleted_records_are_not_confirmed_by_a_failed_disk(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        index = await where_on(served, tmp_path / "two")
        await served.produce("t", b"a", partition=index)
        (tmp_path / "two").rename(tmp_path / "gone")
        asked = DeleteRecordsRequestPartition(partition_index=index, offset=1)
        topic = DeleteRecordsRequestTopic(name="t", partitions=[asked])
        response = await served.send(DeleteRecordsRequest(topics=[topic], timeout_ms=5000))
        (partition,) = response.topics[0].partitions
        assert partition.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert partition.low_watermark == -1

    run(story, log__dirs=f"{tmp_path}/one,{tmp_path}/two", num__partitions="4")


def test_a_topic_is_deleted_whole_though_a_disk_fails(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        (tmp_path / "two").rename(tmp_path / "gone")
        wanted = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="t")], timeout_ms=5000)
        assert (await served.send(wanted)).responses[0].error_code == ErrorCode.NONE
        await served.topic("t")
        assert (await served.produce("t", b"a")).error_code == ErrorCode.NONE

    run(story, log__dirs=f"{tmp_path}/one,{tmp_path}/two", num__partitions="4")


def test_the_round_of_retention_goes_on_after_a_disk_failed_in_it(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        replicas = [served.broker.replica_manager.find(TopicPartition("t", p)) for p in range(4)]
        for index in range(4):
            for _ in range(2):
                await served.produce("t", b"x" * 200, partition=index)
        (tmp_path / "two").rename(tmp_path / "gone")
        await served.broker.replica_manager.delete_old_segments()
        failed = [replica.log.directory.failure is not None for replica in replicas]
        assert True in failed[:-1]  # and partitions of the other directory came after it
        kept = [
            r.log.log_start_offset for r, gone in zip(replicas, failed, strict=True) if not gone
        ]
        assert kept
        assert 0 not in kept

    directories = f"{tmp_path}/one,{tmp_path}/two"
    settings = {"log.segment.bytes": "200", "log.retention.ms": "1"}
    run(story, log__dirs=directories, num__partitions="4", **settings)


def test_a_partition_that_fails_while_its_topic_grows_stays_without_leader(
    run: Run, tmp_path: Path
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        index = await where_on(served, tmp_path / "two")
        growth = asyncio.create_task(
            served.broker.topics.create_partitions("t", 6, None, validate_only=False)
        )
        await asyncio.sleep(0)  # the growth waits for the registry's journal
        assert not growth.done()
        fail(served, TopicPartition("t", index))
        assert await growth is None
        partitions = served.broker.metadata.topics["t"].partitions
        assert [news.leader for news in partitions] == [
            -1 if p % 2 == index % 2 and p < 4 else 0 for p in range(6)
        ]

    run(story, log__dirs=f"{tmp_path}/one,{tmp_path}/two", num__partitions="4")


async def delete(served: Served, name: str) -> None:
    wanted = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=name)], timeout_ms=5000)
    assert (await served.send(wanted)).responses[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_topic_that_was_deleted_while_a_disk_was_away_stays_deleted(
    run: Run, tmp_path: Path, comes_back: bool, caplog: pytest.LogCaptureFixture
) -> None:
    two = tmp_path / "two"
    directories = f"{tmp_path}/one,{two}"

    async def before(served: Served) -> None:
        await served.topic("t")
        for index in range(4):
            await served.produce("t", b"old", partition=index)

    async def without_the_disk(served: Served) -> None:
        await delete(served, "t")
        if comes_back:
            await served.topic("t")
            for index in range(4):
                await served.produce("t", b"new", partition=index)

    async def after(served: Served) -> None:
        topics = (await served.send(MetadataRequest(topics=None))).topics
        assert [topic.name for topic in topics] == (["t"] if comes_back else [])
        for index in range(4 if comes_back else 0):
            assert [r.value for r in await served.read("t", partition=index)] == [b"new"]

    run(before, log__dirs=directories, num__partitions="4")
    two.rename(tmp_path / "gone")
    two.write_text("no directory")
    run(without_the_disk, log__dirs=directories, num__partitions="4")
    two.unlink()
    (tmp_path / "gone").rename(two)
    run(after, log__dirs=directories)
    strays = [path for path in two.iterdir() if path.name.endswith("-stray")]
    assert len(strays) == 2
    assert all(b"old" in (path / f"{0:020d}.log").read_bytes() for path in strays)
    said = [r for r in caplog.records if r.getMessage().startswith("stray log renamed")]
    assert len(said) == 2
    run(after, log__dirs=directories)
