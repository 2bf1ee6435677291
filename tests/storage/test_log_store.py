"""All logs of a broker."""

from __future__ import annotations

import asyncio
import resource
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kavka.ids import TopicId, TopicPartition
from kavka.storage.checkpoint.meta_properties import MetaProperties
from kavka.storage.directory.directory_names import partition_of
from kavka.storage.directory.log_creation import LogCreation
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.disk.os_disk import OsDisk
from kavka.storage.failures import LogDirectoryFailed
from kavka.storage.log.log import Log
from kavka.storage.log_config import LogConfig
from kavka.storage.store.log_store import LogStore
from support.storage_bench import LogBench, SeededChance, TurnedClock, add, read_offsets

TOPIC_ID = TopicId(bytes(range(16)))
CONFIG = LogConfig(segment_bytes=1000)


class Stores:
    """Makes stores over the same two directories, as restarts do."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = OsDisk(threads=2)
        self.clock = TurnedClock()

    def new(self, **more: Any) -> LogStore:
        chance = SeededChance()
        return LogStore(
            [
                LogDirectory(self.disk, self.clock, chance, str(self.path / name))
                for name in ("d1", "d2")
            ],
            lambda topic: CONFIG,
            **more,
        )


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


def partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition("my.topic-x", number) for number in range(count)]


def test_new_partitions_go_where_the_fewest_are(stores: Stores) -> None:
    async def scenario() -> None:
        store = stores.new()
        await store.open()
        await asyncio.gather(
            *(store.create(topic_partition, TOPIC_ID, CONFIG) for topic_partition in partitions(6))
        )
        assert [len(report.sizes) for report in await store.describe()] == [3, 3]
        one, other = await asyncio.gather(
            *(store.create(TopicPartition("same", 0), TOPIC_ID, CONFIG) for _ in range(2))
        )
        assert one is other
        await store.close({})

    asyncio.run(scenario())


class MeetingDisk(OsDisk):
    """A disk on which the directories of partitions are synced four at a time, or not at all."""

    def __init__(self) -> None:
        super().__init__(threads=4)
        self._meeting = threading.Barrier(4, timeout=30)

    def sync_directory(self, path: str) -> None:
        if partition_of(Path(path).name) is not None:
            self._meeting.wait()
        super().sync_directory(path)


def test_a_stop_waits_for_the_syncs_of_many_logs_together(stores: Stores) -> None:
    async def scenario() -> None:
        stores.disk = MeetingDisk()
        store = stores.new(loads_at_once=1)
        await store.open()
        for topic_partition in partitions(16):
            add(await store.create(topic_partition, TOPIC_ID, CONFIG))
        await store.close({})

    asyncio.run(scenario())


def test_a_clean_stop_and_start_keeps_everything(stores: Stores) -> None:
    async def scenario() -> None:
        store = stores.new()
        await store.open()
        for topic_partition in partitions(4):
            log = await store.create(topic_partition, TOPIC_ID, CONFIG)
            for _ in range(15):
                add(log, size=100)
        first = store.get(partitions(1)[0])
        assert first is not None
        first.delete_before(4, 15)
        await store.close(dict.fromkeys(partitions(4), 11), broker_epoch=3)

        store = stores.new()
        await store.open()
        assert len(store) == 4
        assert store.recoveries == {}
        assert store.high_watermarks == dict.fromkeys(partitions(4), 11)
        again = store.get(partitions(1)[0])
        assert again is not None
        assert again.topic_id == TOPIC_ID
        assert (again.log_start_offset, again.log_end_offset, again.recovery_point) == (4, 15, 15)
        assert [log.topic_partition for log in store.of_topic("my.topic-x")] == partitions(4)
        await store.close({})

    asyncio.run(scenario())


def test_a_killed_broker_recovers_and_says_so(stores: Stores) -> None:
    async def scenario() -> None:
        store = stores.new()
        await store.open()
        topic_partition = partitions(1)[0]
        log = await store.create(topic_partition, TOPIC_ID, CONFIG)
        for _ in range(15):
            add(log, size=100)
        await store.write_checkpoints()
        for directory in store.directories:
            await directory.close(is_clean=False)

        store = stores.new()
        await store.open()
        again = store.get(topic_partition)
        assert again is not None
        assert store.recoveries[topic_partition].cut_bytes == 0
        assert read_offsets(again) == [(n, n) for n in range(15)]
        await store.close({})

    asyncio.run(scenario())


def test_a_second_broker_is_refused(stores: Stores) -> None:
    async def scenario() -> None:
        store = stores.new()
        await store.open()
        with pytest.raises(BlockingIOError):
            await stores.new().open()
        await store.close({})

    asyncio.run(scenario())


def test_a_deleted_partition_is_renamed_and_removed_later(stores: Stores) -> None:
    async def scenario() -> None:
        store = stores.new()
        await store.open()
        topic_partition = TopicPartition("t" * 249, 0)
        log = await store.create(topic_partition, TOPIC_ID, CONFIG)
        for _ in range(15):
            add(log, size=100)
        found = log.read(12, 100, 15).range
        assert found is not None
        assert await store.delete(topic_partition)
        assert not await store.delete(topic_partition)
        assert store.get(topic_partition) is None
        (name,) = (path.name for path in (stores.path / "d1").iterdir() if path.is_dir())
        assert name.endswith("-delete")
        assert len(name) == 255
        assert len(found.file.read_at(found.length, found.position)) == 100
        found.release()
        fresh = await store.create(topic_partition, TOPIC_ID, CONFIG)
        assert fresh.log_end_offset == 0
        stores.clock.now += CONFIG.file_delete_delay_ms
        await store.remove_due()
        assert name not in stores.disk.list(str(stores.path / "d1"))
        await store.close({})

    asyncio.run(scenario())


def test_a_partition_that_was_being_deleted_is_gone_after_a_restart(stores: Stores) -> None:
    async def scenario() -> None:
        store = stores.new()
        await store.open()
        topic_partition = partitions(1)[0]
        await store.create(topic_partition, TOPIC_ID, CONFIG)
        await store.delete(topic_partition)
        await store.close({})
        store = stores.new()
        await store.open()
        assert len(store) == 0
        await store.remove_due()
        assert not [path for path in (stores.path / "d1").iterdir() if path.is_dir()]
        await store.close({})

    asyncio.run(scenario())


def test_a_partition_in_two_directories_stops_the_start(stores: Stores) -> None:
    async def scenario() -> None:
        for name in ("d1", "d2"):
            (stores.path / name / "t-0").mkdir(parents=True)
        with pytest.raises(ValueError, match="t-0 is in"):
            await stores.new().open()

    asyncio.run(scenario())


def test_a_directory_that_cannot_be_used_leaves_the_other_serving(stores: Stores) -> None:
    async def scenario() -> None:
        (stores.path / "d1").write_bytes(b"a file where a directory belongs")
        store = stores.new()
        await store.open()
        log = await store.create(partitions(1)[0], TOPIC_ID, CONFIG)
        assert log.directory.path.endswith("d2")
        offline, online = await store.describe()
        assert offline.failure is not None
        assert online.failure is None
        assert 0 < online.usable_bytes <= online.total_bytes
        await store.close({})

    asyncio.run(scenario())


def test_no_usable_directory_stops_the_start(stores: Stores) -> None:
    async def scenario() -> None:
        for name in ("d1", "d2"):
            (stores.path / name).write_bytes(b"")
        with pytest.raises(LogDirectoryFailed, match="no log directory can be used"):
            await stores.new().open()

    asyncio.run(scenario())


def test_a_failed_directory_takes_only_its_partitions(stores: Stores) -> None:
    async def scenario() -> None:
        store = stores.new()
        await store.open()
        logs = [
            await store.create(topic_partition, TOPIC_ID, CONFIG)
            for topic_partition in partitions(2)
        ]
        logs[0].directory.fail(OSError(5, "Input/output error"))
        with pytest.raises(LogDirectoryFailed):
            add(logs[0])
        add(logs[1])
        await store.write_checkpoints()
        await store.write_high_watermarks(dict.fromkeys(partitions(2), 0))
        await store.close({})
        assert not (Path(logs[0].directory.path) / ".kafka_cleanshutdown").exists()
        assert (Path(logs[1].directory.path) / ".kafka_cleanshutdown").exists()

    asyncio.run(scenario())


def test_logs_are_flushed_when_their_time_has_come(stores: Stores) -> None:
    async def scenario() -> None:
        store = stores.new()
        await store.open()
        log = await store.create(partitions(1)[0], TOPIC_ID, LogConfig(flush_ms=1000))
        add(log)
        await store.flush_due()
        assert log.recovery_point == 0
        stores.clock.now += 1000
        await store.flush_due()
        assert log.recovery_point == 1
        await store.close({})

    asyncio.run(scenario())


def test_the_identity_of_a_directory_is_kept(bench: LogBench) -> None:
    async def scenario() -> None:
        directory = bench.directory
        await directory.open()
        assert await directory.read_meta() is None
        meta = MetaProperties(1, "cluster")
        await directory.write_meta(meta)
        assert await directory.read_meta() == meta
        await directory.close(is_clean=False)

    asyncio.run(scenario())


def test_checkpoints_that_are_written_at_once_do_not_disturb_each_other(bench: LogBench) -> None:
    async def scenario() -> None:
        directory = bench.directory
        await directory.open()
        one = TopicPartition("t", 0)
        name = "log-start-offset-checkpoint"
        await asyncio.gather(*(directory.write_offsets(name, {one: n}) for n in range(20)))
        assert directory.failure is None
        assert await directory.read_offsets(name) == {one: 19}
        await directory.close(is_clean=True)

    asyncio.run(scenario())


def test_a_malformed_checkpoint_is_taken_as_empty(bench: LogBench) -> None:
    async def scenario() -> None:
        directory = bench.directory
        await directory.open()
        (bench.path / "recovery-point-offset-checkpoint").write_bytes(b"0\n5\n")
        assert await directory.read_offsets("recovery-point-offset-checkpoint") == {}
        await directory.close(is_clean=False)

    asyncio.run(scenario())


def test_a_log_that_cannot_be_opened_keeps_its_checkpointed_offsets(stores: Stores) -> None:
    async def scenario() -> None:
        store = stores.new()
        await store.open()
        bad, good = partitions(2)
        for topic_partition in (bad, good):
            log = await store.create(topic_partition, TOPIC_ID, CONFIG)
            for _ in range(15):
                add(log, size=100)
            log.delete_before(3, 15)
        directory = store.directories[0]
        await store.close({bad: 11, good: 12})
        path = stores.path / "d1" / str(bad) / "partition.metadata"
        was = path.read_bytes()
        path.write_bytes(b"damage")

        store = stores.new()
        await store.open()
        assert list(store.unreadable) == [bad]
        await store.write_checkpoints()
        await store.write_high_watermarks({})
        await store.close({})
        path.write_bytes(was)

        store = stores.new()
        await store.open()
        log = store.get(bad)  # type: ignore[assignment]
        assert log is not None
        assert (log.log_start_offset, log.recovery_point) == (3, 15)
        assert store.high_watermarks == {bad: 11, good: 12}
        assert directory.path == log.directory.path
        await store.close({})

    asyncio.run(scenario())


def test_a_partition_that_is_made_again_inherits_no_checkpoint(stores: Stores) -> None:
    async def scenario() -> None:
        store = stores.new()
        await store.open()
        topic_partition = partitions(1)[0]
        log = await store.create(topic_partition, TOPIC_ID, CONFIG)
        for _ in range(35):
            add(log, size=100)
        log.delete_before(30, 35)
        await log.flush()
        await store.write_checkpoints()
        await store.delete(topic_partition)
        log = await store.create(topic_partition, TOPIC_ID, CONFIG)
        for _ in range(20):
            add(log, size=100)
        for directory in store.directories:
            await directory.close(is_clean=False)  # as after a kill

        store = stores.new()
        await store.open()
        again = store.get(topic_partition)
        assert again is not None
        assert (again.log_start_offset, again.log_end_offset) == (0, 20)
        assert again.recovery.checked_segments == [0, 10]
        await store.close({})

    asyncio.run(scenario())


def test_the_high_watermark_is_that_of_the_directory_that_holds_the_log(stores: Stores) -> None:
    async def scenario() -> None:
        store = stores.new()
        await store.open()
        topic_partition = partitions(1)[0]
        add(await store.create(topic_partition, TOPIC_ID, CONFIG), 9)
        await store.directories[1].write_offsets(
            "replication-offset-checkpoint", {topic_partition: 4}
        )
        await store.write_high_watermarks({topic_partition: 7})
        for directory in store.directories:
            await directory.close(is_clean=False)
        store = stores.new()
        await store.open()
        assert store.high_watermarks == {topic_partition: 7}
        await store.close({})

    asyncio.run(scenario())


def test_many_new_logs_are_made_in_few_turns_of_the_pool(stores: Stores) -> None:
    class CountingDisk(OsDisk):
        runs = 0

        async def run(self, work: Callable[..., Any], *args: Any) -> Any:
            self.runs += 1
            return await super().run(work, *args)

        def sync_directory(self, path: str) -> None:
            raise AssertionError("nothing is synced for a log without records")

    async def scenario() -> None:
        store = stores.new()
        await store.open()
        disk = CountingDisk(threads=2)
        for directory in store.directories:
            directory.creation = LogCreation(disk)
        logs = await asyncio.gather(
            *(
                store.create(topic_partition, TOPIC_ID, CONFIG)
                for topic_partition in partitions(200)
            )
        )
        assert disk.runs <= 10
        assert [log.topic_partition for log in logs] == partitions(200)
        assert all((stores.path / log.path / "partition.metadata").exists() for log in logs)
        disk.close()
        await store.close({})

    asyncio.run(scenario())


class HeldDisk(OsDisk):
    """The real disk, whose pool does nothing until `released` is set; `asked` says that there is work."""

    def __init__(self) -> None:
        super().__init__(threads=2)
        self.asked, self.released = asyncio.Event(), asyncio.Event()

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        self.asked.set()
        await self.released.wait()
        return await super().run(work, *args)


async def create_log(directory: LogDirectory) -> None:
    await Log.open(directory, TopicPartition("events", 0), CONFIG, is_clean=True)


@pytest.mark.parametrize("work", [create_log, LogDirectory.sync_names])
def test_a_directory_waits_for_the_work_of_a_cancelled_request(
    tmp_path: Path, work: Callable[[LogDirectory], Coroutine[Any, Any, None]]
) -> None:
    """A request that shares its work with others leaves it to them when it is cancelled."""

    async def scenario() -> None:
        disk = HeldDisk()
        (tmp_path / "data").mkdir()
        bench = LogBench(tmp_path / "data", disk)
        request = asyncio.create_task(work(bench.directory))
        await disk.asked.wait()
        request.cancel()
        await asyncio.wait([request])
        settling = asyncio.create_task(bench.directory.wait_for_tasks())
        await asyncio.sleep(0)
        assert not settling.done()
        disk.released.set()
        await settling
        assert asyncio.all_tasks() == {asyncio.current_task()}
        bench.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("left", [0, 5, 11, 30, "zeros"])
def test_a_topic_id_that_a_host_crash_cut_is_learnt_again(stores: Stores, left: int | str) -> None:
    async def scenario() -> None:
        store = stores.new()
        await store.open()
        topic_partition = partitions(1)[0]
        await store.create(topic_partition, TOPIC_ID, CONFIG)
        path = stores.path / "d1" / str(topic_partition) / "partition.metadata"
        was = path.read_bytes()
        path.write_bytes(was[:left] if isinstance(left, int) else bytes(len(was)))
        for directory in store.directories:
            await directory.close(is_clean=False)
        store = stores.new()
        await store.open()
        log = store.get(topic_partition)
        assert log is not None
        assert log.topic_id is None
        assert await store.create(topic_partition, TOPIC_ID, CONFIG) is log
        assert log.topic_id == TOPIC_ID
        assert path.read_bytes() == was
        await store.close({})

    asyncio.run(scenario())


def test_directories_share_what_the_process_may_open(stores: Stores) -> None:
    class PoorDisk(OsDisk):
        def open_files_limit(self) -> int:
            return 1024

    stores.disk = PoorDisk(threads=2)
    assert [directory.open_files.limit for directory in stores.new().directories] == [256, 256]


def test_the_limit_of_open_files_is_raised_as_far_as_the_system_lets(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, 524288))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: raised.append(limits))
    assert stores.disk.open_files_limit() == 524288
    assert raised == [(524288, 524288)]
