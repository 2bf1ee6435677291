"""A replica moves to another directory of its broker while it is written to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequestDir,
    AlterReplicaLogDirsRequestTopic,
)
from kavka.wire.messages.describe_log_dirs import DescribeLogDirsRequest

Run = Callable[..., None]
WHERE = TopicPartition("t", 0)


@pytest.fixture
def two(tmp_path: Path) -> dict[str, str]:
    """Settings with two log directories."""
    return {"log__dirs": f"{tmp_path}/one,{tmp_path}/two"}


def move(path: object, topic: str = "t") -> AlterReplicaLogDirsRequest:
    wanted = AlterReplicaLogDirsRequestTopic(name=topic, partitions=[0])
    return AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDirsRequestDir(path=str(path), topics=[wanted])]
    )


async def code_of(served: Any, request: AlterReplicaLogDirsRequest) -> ErrorCode:
    response = await served.send(request)
    return ErrorCode.of(response.results[0].partitions[0].error_code)


def other(served: Any, tmp_path: Path) -> Path:
    here = Path(served.broker.replicas.find(WHERE).log.directory.path)
    return next(path for path in (tmp_path / "one", tmp_path / "two") if path != here)


async def until_moved(served: Any, target: Path) -> None:
    async with asyncio.timeout(20):
        while (  # noqa: ASYNC110 - a move tells nobody
            served.broker.replicas.find(WHERE).log.directory.path != str(target)
        ):
            await asyncio.sleep(0.001)


def test_replica_moves_while_it_is_written_to(
    run: Run, tmp_path: Path, two: dict[str, str]
) -> None:
    async def story(served: Any) -> None:
        await served.topic("t")
        written = []
        for number in range(50):
            await served.produce("t", b"before %d" % number)
            written.append(b"before %d" % number)
        target = other(served, tmp_path)
        assert await code_of(served, move(target)) is ErrorCode.NONE
        moved = asyncio.ensure_future(until_moved(served, target))
        number = 0
        while not moved.done():
            answer = await served.produce("t", b"during %d" % number)
            if answer.error_code == ErrorCode.NONE:
                written.append(b"during %d" % number)
            else:
                assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            number += 1
        await moved
        await served.produce("t", b"after")
        values: list[bytes] = []
        while len(values) < len(written) + 1:
            values += [record.value for record in await served.read("t", len(values))]
        assert values == [*written, b"after"]
        assert (target / "t-0").is_dir()

    run(story, **two)


def test_both_places_of_a_moving_replica_are_described(
    run: Run, tmp_path: Path, two: dict[str, str]
) -> None:
    async def story(served: Any) -> None:
        await served.topic("t")
        await served.produce("t", b"a" * 1000)
        target = other(served, tmp_path)
        replica = served.broker.replicas.find(WHERE)
        async with replica.turn:  # the copy cannot begin
            moving = asyncio.ensure_future(code_of(served, move(target)))
            await asyncio.sleep(0)
        assert await moving is ErrorCode.NONE
        found = await served.send(DescribeLogDirsRequest(topics=None))
        keys = {
            (result.log_dir, partition.is_future_key)
            for result in found.results
            for topic in result.topics
            for partition in topic.partitions
        }
        assert (str(target), True) in keys or (str(target), False) in keys
        await until_moved(served, target)

    run(story, **two)


def test_move_back_calls_the_move_off(run: Run, tmp_path: Path, two: dict[str, str]) -> None:
    async def story(served: Any) -> None:
        await served.topic("t")
        await served.produce("t", b"a")
        target = other(served, tmp_path)
        here = served.broker.replicas.find(WHERE).log.directory.path
        served.broker.configs.put_broker(
            {"replica.alter.log.dirs.io.max.bytes.per.second": "1"}, default=False
        )
        await code_of(served, move(target))
        assert await code_of(served, move(here)) is ErrorCode.NONE
        assert served.broker.replicas.store.future(WHERE) is None
        assert served.broker.replicas.find(WHERE).log.directory.path == here

    run(story, **two)


def test_unknown_places_and_partitions_are_refused(
    run: Run, tmp_path: Path, two: dict[str, str]
) -> None:
    async def story(served: Any) -> None:
        await served.topic("t")
        assert await code_of(served, move("/nowhere")) is ErrorCode.LOG_DIR_NOT_FOUND
        one = tmp_path / "one"
        assert await code_of(served, move(one, "u")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await code_of(served, move(one, "not/legal")) is ErrorCode.INVALID_TOPIC_EXCEPTION
        await served.topic("u")
        here = served.broker.replicas.find(TopicPartition("u", 0)).log.directory.path
        assert here == str(one)

    run(story, **two)


def test_replica_whose_log_begins_inside_of_a_batch_moves(
    run: Run, tmp_path: Path, two: dict[str, str]
) -> None:
    async def story(served: Any) -> None:
        await served.topic("t")
        await served.produce("t", b"a", b"b", b"c")
        await served.produce("t", b"d")
        assert served.broker.replicas.find(WHERE).delete_before(2) == 2
        target = other(served, tmp_path)
        assert await code_of(served, move(target)) is ErrorCode.NONE
        await until_moved(served, target)
        replica = served.broker.replicas.find(WHERE)
        assert (replica.log.log_start_offset, replica.log.log_end_offset) == (2, 4)
        assert (await served.fetch("t", 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        found = [r.value for r in await served.read("t", 2) if r.offset >= 2]
        assert found == [b"c", b"d"]

    run(story, **two)
