"""A replica moves to another directory of its broker while it is written to."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.replication.alter_log_dirs import AlterLogDirsManager
from kavka.core.partition import Partition
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.storage.log.log import Log
from kavka.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequestDir,
    AlterReplicaLogDirsRequestTopic,
)
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from kavka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from kavka.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from kavka.wire.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrRequestPartition,
    LeaderAndIsrRequestTopic,
)
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from support.one_broker import Run, Served
from support.waiting import eventually, until

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


async def code_of(served: Served, request: AlterReplicaLogDirsRequest) -> ErrorCode:
    response = await served.send(request)
    return ErrorCode.of(response.results[0].partitions[0].error_code)


def other(served: Served, tmp_path: Path) -> Path:
    here = Path(served.broker.replica_manager.find(WHERE).log.directory.path)
    return next(path for path in (tmp_path / "one", tmp_path / "two") if path != here)


async def until_moved(served: Served, target: Path) -> None:
    replica = served.broker.replica_manager.find(WHERE)
    await until(lambda: replica.log.directory.path == str(target))


def test_replica_moves_while_it_is_written_to(
    run: Run, tmp_path: Path, two: dict[str, str]
) -> None:
    async def story(served: Served) -> None:
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
            response = await served.produce("t", b"during %d" % number)
            if response.error_code == ErrorCode.NONE:
                written.append(b"during %d" % number)
            else:
                assert response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            number += 1
        await moved
        await served.produce("t", b"after")
        values: list[bytes | None] = []
        while len(values) < len(written) + 1:
            values += [record.value for record in await served.read("t", len(values))]
        assert values == [*written, b"after"]
        assert (target / "t-0").is_dir()

    run(story, **two)


def test_both_places_of_a_moving_replica_are_described(
    run: Run, tmp_path: Path, two: dict[str, str]
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a" * 1000)
        target = other(served, tmp_path)
        replica = served.broker.replica_manager.find(WHERE)
        async with replica.lock:  # the copy cannot begin
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
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a")
        target = other(served, tmp_path)
        here = served.broker.replica_manager.find(WHERE).log.directory.path
        served.broker.context.effective_configs.put_broker(
            {"replica.alter.log.dirs.io.max.bytes.per.second": "1"}, default=False
        )
        await code_of(served, move(target))
        assert await code_of(served, move(here)) is ErrorCode.NONE
        assert served.broker.replica_manager.store.future(WHERE) is None
        assert served.broker.replica_manager.find(WHERE).log.directory.path == here

    run(story, **two)


def test_unknown_places_and_partitions_are_refused(
    run: Run, tmp_path: Path, two: dict[str, str]
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        assert await code_of(served, move("/nowhere")) is ErrorCode.LOG_DIR_NOT_FOUND
        one = tmp_path / "one"
        assert await code_of(served, move(one, "u")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await code_of(served, move(one, "not/legal")) is ErrorCode.INVALID_TOPIC_EXCEPTION
        await served.topic("u")
        here = served.broker.replica_manager.find(TopicPartition("u", 0)).log.directory.path
        assert here == str(one)

    run(story, **two)


def test_replica_whose_log_begins_inside_of_a_batch_moves(
    run: Run, tmp_path: Path, two: dict[str, str]
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a", b"b", b"c")
        await served.produce("t", b"d")
        assert served.broker.replica_manager.find(WHERE).delete_before(2) == 2
        target = other(served, tmp_path)
        assert await code_of(served, move(target)) is ErrorCode.NONE
        await until_moved(served, target)
        replica = served.broker.replica_manager.find(WHERE)
        assert (replica.log.log_start_offset, replica.log.log_end_offset) == (2, 4)
        assert (await served.fetch("t", 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        found = [r.value for r in await served.read("t", 2) if r.offset >= 2]
        assert found == [b"c", b"d"]

    run(story, **two)


class HeldSwap:
    """A swap that waits, in the disk, behind the renaming of the old log's directory."""

    def __init__(self) -> None:
        self.is_reached = threading.Event()
        self.may_go_on = threading.Event()
        self.fails = False
        self.is_late = False
        """True if it waits behind the switch, before the copy's directory gets its name."""

    async def reached(self) -> None:
        await until(self.is_reached.is_set)

    def go_on_later(self) -> None:
        """Continue when the operation that waits for the swap has begun to wait."""
        asyncio.get_running_loop().call_later(0.05, self.may_go_on.set)


@contextlib.contextmanager
def held_swap(
    served: Served, monkeypatch: pytest.MonkeyPatch, topic_partition: TopicPartition = WHERE
) -> Iterator[HeldSwap]:
    swap = HeldSwap()
    disk = served.broker.environment.disk
    rename = disk.rename

    def renamed(old: str, new: str) -> None:
        if swap.fails and new.endswith(f"/{topic_partition}"):
            raise OSError(errno.EIO, "the test says so")
        name = new if swap.is_late else old
        if not swap.is_late:
            rename(old, new)
        if name.endswith(f"/{topic_partition}") and not swap.is_reached.is_set():
            swap.is_reached.set()
            swap.may_go_on.wait(20)
        if swap.is_late:
            rename(old, new)

    monkeypatch.setattr(disk, "rename", renamed)
    try:
        yield swap
    finally:
        swap.may_go_on.set()


async def committed(served: Served) -> ErrorCode:
    """Commit an offset of t-0 for a group."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    response = await served.send(request, 7)
    return ErrorCode.of(response.topics[0].partitions[0].error_code)


async def until_committed(served: Served) -> None:
    await eventually(lambda: committed(served), lambda code: code is ErrorCode.NONE)


async def swapping(served: Served, target: Path, swap: HeldSwap) -> None:
    """Write something, and begin a move that is held in its swap."""
    await served.topic("t")
    for number in range(5):
        await served.produce("t", b"%d" % number)
    assert await code_of(served, move(target)) is ErrorCode.NONE
    await swap.reached()


async def values(served: Served) -> list[bytes | None]:
    return [record.value for record in await served.read("t")]


def logs_in(tmp_path: Path) -> dict[str, list[str]]:
    """Return the directories of t-0 that are not deleted, by log directory."""
    found = {
        directory.name: sorted(path.name for path in directory.glob("t-0*") if path.is_dir())
        for directory in tmp_path.iterdir()
        if directory.is_dir()
    }
    return {
        name: kept
        for name, paths in found.items()
        if (kept := [path for path in paths if not path.endswith("-delete")])
    }


@pytest.mark.parametrize("target", ["one", "two", "three"])
def test_move_that_comes_during_a_swap_waits_for_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    async def story(served: Served) -> None:
        with held_swap(served, monkeypatch) as swap:
            await swapping(served, tmp_path / "two", swap)
            moving = asyncio.ensure_future(code_of(served, move(tmp_path / target)))
            swap.go_on_later()
            assert await moving is ErrorCode.NONE
            await until_moved(served, tmp_path / target)
            assert (await served.produce("t", b"5")).error_code == ErrorCode.NONE
            assert await values(served) == [b"0", b"1", b"2", b"3", b"4", b"5"]
            assert logs_in(tmp_path) == {target: ["t-0"]}

    run(story, log__dirs=f"{tmp_path}/one,{tmp_path}/two,{tmp_path}/three")


def test_topic_that_is_deleted_during_a_swap_is_deleted_behind_it(
    run: Run, tmp_path: Path, two: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(served: Served) -> None:
        with held_swap(served, monkeypatch) as swap:
            await swapping(served, tmp_path / "two", swap)
            topics = [DeleteTopicsRequestTopic(name="t")]
            request = DeleteTopicsRequest(topics=topics, timeout_ms=20_000)
            deleting = asyncio.ensure_future(served.send(request))
            swap.go_on_later()
            assert (await deleting).responses[0].error_code == ErrorCode.NONE
            directories = served.broker.replica_manager.store.directories
            assert [directory.failure for directory in directories] == [None, None]
            assert logs_in(tmp_path) == {}
            await served.topic("t")
            assert (await served.produce("t", b"a")).base_offset == 0

    run(story, **two)


def test_what_is_done_to_the_old_log_during_a_swap_counts(
    run: Run, tmp_path: Path, two: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(served: Served) -> None:
        with held_swap(served, monkeypatch) as swap:
            await swapping(served, tmp_path / "two", swap)
            asked = DeleteRecordsRequestPartition(partition_index=0, offset=3)
            topic = DeleteRecordsRequestTopic(name="t", partitions=[asked])
            response = await served.send(DeleteRecordsRequest(topics=[topic], timeout_ms=20_000))
            assert response.topics[0].partitions[0].low_watermark == 3
            served.broker.dynamic_configs.topic_configured(
                "t", {"retention.ms": "77", "segment.ms": "1"}
            )
            await served.broker.replica_manager.delete_old_segments()
            swap.go_on_later()
            await until_moved(served, tmp_path / "two")
            replica = served.broker.replica_manager.find(WHERE)
            assert replica.log.log_start_offset == replica.partition.log_start_offset == 3
            assert replica.log.config.retention_ms == 77
            assert (await served.fetch("t", 2)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    run(story, **two)


def test_broker_that_stops_during_a_swap_ends_it_first(
    run: Run, tmp_path: Path, two: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stops(served: Served) -> None:
        with contextlib.ExitStack() as stack:
            swap = stack.enter_context(held_swap(served, monkeypatch))
            await swapping(served, tmp_path / "two", swap)
            swap.go_on_later()
            stack.pop_all()

    run(stops, **two)
    assert logs_in(tmp_path) == {"two": ["t-0"]}

    async def starts(served: Served) -> None:
        assert served.broker.replica_manager.was_clean
        assert await values(served) == [b"0", b"1", b"2", b"3", b"4"]

    run(starts, **two)


def test_replica_is_offline_when_the_swap_fails_behind_the_old_log(
    run: Run, tmp_path: Path, two: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(served: Served) -> None:
        with held_swap(served, monkeypatch) as swap:
            swap.fails = True
            await swapping(served, tmp_path / "two", swap)
            moving = asyncio.ensure_future(code_of(served, move(tmp_path / "one")))
            swap.go_on_later()
            assert await moving is ErrorCode.KAFKA_STORAGE_ERROR
            assert (await served.produce("t", b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await served.fetch("t")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            news = served.broker.metadata.partition(WHERE)
            assert news.leader == -1

    run(story, **two)
    monkeypatch.undo()

    async def starts(served: Served) -> None:
        assert await values(served) == [b"0", b"1", b"2", b"3", b"4"]
        assert logs_in(tmp_path) == {"two": ["t-0"]}

    run(starts, **two)


def with_a_silent_follower(
    partition: Partition, own: int, in_sync: tuple[int, ...] = (0, 77)
) -> LeaderAndIsrRequest:
    """Order the leader to continue with a second replica, which never fetches, in its in-sync set or not."""
    state = LeaderAndIsrRequestPartition(
        partition_index=0,
        controller_epoch=1000,
        leader=own,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=1000,
        isr=list(in_sync),
        replicas=[own, 77],
    )
    topic = LeaderAndIsrRequestTopic(
        topic_name="t", topic_id=partition.topic_id, partition_states=[state]
    )
    return LeaderAndIsrRequest(controller_id=own, controller_epoch=1000, topic_states=[topic])


def test_no_client_gets_an_error_of_the_old_disk_when_the_copy_counts_already(
    run: Run, tmp_path: Path, two: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"0")
        replica = served.broker.replica_manager.find(WHERE)
        own = served.broker.broker_id
        await served.control_request(with_a_silent_follower(replica.partition, own), 7)
        other_client = await served.another()
        waiting = asyncio.ensure_future(other_client.produce("t", b"1", acks=-1))
        await until(lambda: len(served.broker.produce_purgatory) == 1)
        with held_swap(served, monkeypatch) as swap:
            swap.is_late = True
            assert await code_of(served, move(other(served, tmp_path))) is ErrorCode.NONE
            await swap.reached()
            replica.log.directory.fail(OSError(errno.EIO, "the test says so"))
            served.broker.produce_purgatory.check_and_complete(WHERE)
            refused = await served.produce("t", b"2")
            assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            stopping = asyncio.ensure_future(
                served.control_request(with_a_silent_follower(replica.partition, own, (own,)), 7)
            )
            swap.go_on_later()
            assert (await waiting).error_code == ErrorCode.NONE
            (topic,) = (await stopping).topics
            assert topic.partition_errors[0].error_code == ErrorCode.NONE
        assert await values(served) == [b"0", b"1"]

    run(story, **two)


def test_waiting_produce_fails_with_a_swap_that_fails_behind_the_old_log(
    run: Run, tmp_path: Path, two: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"0")
        partition = served.broker.replica_manager.find(WHERE).partition
        await served.control_request(with_a_silent_follower(partition, served.broker.broker_id), 7)
        other_client = await served.another()
        waiting = asyncio.ensure_future(other_client.produce("t", b"1", acks=-1))
        await until(lambda: len(served.broker.produce_purgatory) == 1)
        with held_swap(served, monkeypatch) as swap:
            swap.fails = True
            assert await code_of(served, move(other(served, tmp_path))) is ErrorCode.NONE
            await swap.reached()
            swap.go_on_later()
            assert (await waiting).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    run(story, **two)


def test_coordinator_that_loads_during_a_swap_loads_from_the_new_place(
    run: Run, tmp_path: Path, two: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(served: Served) -> None:
        offsets = TopicPartition("__consumer_offsets", 0)
        await served.topic("__consumer_offsets")
        await served.topic("t")
        await until_committed(served)
        replica = served.replica(offsets)
        target = "two" if replica.log.directory.path.endswith("one") else "one"
        with held_swap(served, monkeypatch, offsets) as swap:
            request = move(tmp_path / target, offsets.topic)
            assert await code_of(served, request) is ErrorCode.NONE
            await swap.reached()
            served.broker.groups.resign(0)
            served.broker.groups.become_leader(replica)
            assert await committed(served) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            swap.may_go_on.set()
            await until_committed(served)
            assert replica.log.directory.path.endswith(target)

    run(story, **two, offsets__topic__num__partitions="1")


def test_replica_moves_while_its_records_are_deleted(
    run: Run, tmp_path: Path, two: dict[str, str]
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a")
        replica = served.broker.replica_manager.find(WHERE)
        target = other(served, tmp_path)
        assert await code_of(served, move(target)) is ErrorCode.NONE
        for _ in range(10):
            async with replica.lock:  # the move waits: now for a piece, now for the swap
                await served.produce("t", b"a")
                replica.delete_before(replica.partition.high_watermark)
        await until_moved(served, target)
        assert replica.log.log_start_offset == replica.log.log_end_offset

    run(story, **two)


def test_replica_that_is_being_deleted_is_not_moved(
    run: Run, tmp_path: Path, two: dict[str, str]
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        replicas, moves = served.broker.replica_manager, served.broker.alter_log_dirs
        replica = served.replica(WHERE)
        async with replica.lock:
            moving = asyncio.ensure_future(moves.move(replica, str(tmp_path / "two")))
            deleting = asyncio.ensure_future(replicas.stop(WHERE, -2, delete=True))
            await asyncio.sleep(0)
        assert await moving is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await deleting is ErrorCode.NONE
        assert logs_in(tmp_path) == {}

    run(story, **two)


async def with_two_directories(cluster: Any, number: int) -> None:
    """Start both brokers, of which `number` has two log directories."""
    await cluster.start(3 - number)
    cluster.settings["log.dirs"] = f"{cluster.path}/one,{cluster.path}/two"
    await cluster.start(number)


def target_of(replica: Any, broker: Any) -> Any:
    """Return the directory that a replica is not in."""
    here = replica.log.directory
    return next(other for other in broker.replica_manager.store.directories if other is not here)


def test_follower_goes_on_while_its_copy_waits_for_a_slow_disk(play: Run) -> None:
    async def story(cluster: Any) -> None:
        await with_two_directories(cluster, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await cluster.produce(1, b"before")
        follower, replicas = cluster.replica(2), cluster.brokers[2].replica_manager
        moves = cluster.brokers[2].alter_log_dirs
        target, is_fast = target_of(follower, cluster.brokers[2]), asyncio.Event()
        target.writes.submit(is_fast.wait)
        assert await moves.move(follower, target.path) is ErrorCode.NONE
        await until(lambda: replicas.store.future(WHERE).log_end_offset == 1)
        response = await cluster.produce(1, b"meanwhile", timeout_ms=20_000)
        is_fast.set()
        assert response.error_code == ErrorCode.NONE
        await until(lambda: follower.log.directory is target)
        await cluster.until_equal(1, 2)

    play(story)


def test_replica_that_is_cut_while_its_move_is_throttled_moves(play: Run) -> None:
    async def story(cluster: Any) -> None:
        await with_two_directories(cluster, 1)
        await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2], to=[1])
        await cluster.produce(1, b"of no other", acks=1)
        broker, replica = cluster.brokers[1], cluster.replica(1)
        target, rate = target_of(replica, broker), "replica.alter.log.dirs.io.max.bytes.per.second"
        broker.context.effective_configs.put_broker({rate: "1"}, default=False)
        assert await broker.alter_log_dirs.move(replica, target.path) is ErrorCode.NONE
        await until(lambda: broker.replica_manager.store.future(WHERE).log_end_offset == 1)
        await cluster.leader_and_isr(2, isr=[2])
        await cluster.produce(2, b"of the new leader", acks=1)
        await cluster.produce(2, b"and one more", acks=1)
        await cluster.until_equal(1, 2)
        broker.context.effective_configs.put_broker({rate: str(1 << 40)}, default=False)
        await until(lambda: replica.log.directory is target, timeout_s=20)
        moved = (Path(target.path) / "t-0").glob("*.log")
        assert b"".join(path.read_bytes() for path in moved) == cluster.bytes_of(2)

    play(story)


def test_others_have_their_turn_between_the_pieces_of_a_move(
    run: Run, tmp_path: Path, two: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that is in memory is copied without any wait: the broker would stand still until the end."""
    turn, turns = 0, []
    read = AlterLogDirsManager._read

    async def read_at_a_turn(moves: AlterLogDirsManager, current: Log, offset: int) -> bytes:
        turns.append(turn)
        return await read(moves, current, offset)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def story(served: Served) -> None:
        await served.topic("t")
        for _ in range(5):
            await served.produce("t", b"x" * 900_000)
        monkeypatch.setattr(AlterLogDirsManager, "_read", read_at_a_turn)
        counting = asyncio.ensure_future(count_turns())
        target = other(served, tmp_path)
        assert await code_of(served, move(target)) is ErrorCode.NONE
        await until_moved(served, target)
        counting.cancel()
        assert len(turns) >= 5
        assert len(set(turns)) == len(turns)

    run(story, **two)
