"""A disk that fails takes its partitions with it, and nothing else."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from kavka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from kavka.wire.messages.metadata import MetadataRequest

Run = Callable[..., None]


def fail(served: Any, where: TopicPartition) -> None:
    """Take the directory of a partition offline, as a failed write does."""
    replica = served.broker.replicas.find(where)
    replica.log.directory.fail(OSError(errno.EIO, "Input/output error"))


def test_only_the_partitions_of_a_failed_directory_go(run: Run, tmp_path: Path) -> None:
    async def story(served: Any) -> None:
        await served.topic("t")
        logs = [served.broker.replicas.find(TopicPartition("t", p)).log for p in range(4)]
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
    async def story(served: Any) -> None:
        await served.topic("t")
        fail(served, TopicPartition("t", 0))
        assert "Input/output error" in served.broker.failed.result()

    run(story)


async def where_on(served: Any, directory: Path) -> int:
    """Return a partition of `t` in the directory."""
    logs = [served.broker.replicas.find(TopicPartition("t", p)).log for p in range(4)]
    return next(p for p, log in enumerate(logs) if log.path.startswith(f"{directory}/"))


def test_deleted_records_are_not_confirmed_by_a_failed_disk(run: Run, tmp_path: Path) -> None:
    async def story(served: Any) -> None:
        await served.topic("t")
        index = await where_on(served, tmp_path / "two")
        await served.produce("t", b"a", partition=index)
        (tmp_path / "two").rename(tmp_path / "gone")
        asked = DeleteRecordsRequestPartition(partition_index=index, offset=1)
        topic = DeleteRecordsRequestTopic(name="t", partitions=[asked])
        answer = await served.send(DeleteRecordsRequest(topics=[topic], timeout_ms=5000))
        (partition,) = answer.topics[0].partitions
        assert partition.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert partition.low_watermark == -1

    run(story, log__dirs=f"{tmp_path}/one,{tmp_path}/two", num__partitions="4")


def test_a_topic_is_deleted_whole_though_a_disk_fails(run: Run, tmp_path: Path) -> None:
    async def story(served: Any) -> None:
        await served.topic("t")
        (tmp_path / "two").rename(tmp_path / "gone")
        wanted = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="t")], timeout_ms=5000)
        assert (await served.send(wanted)).responses[0].error_code == ErrorCode.NONE
        await served.topic("t")
        assert (await served.produce("t", b"a")).error_code == ErrorCode.NONE

    run(story, log__dirs=f"{tmp_path}/one,{tmp_path}/two", num__partitions="4")
