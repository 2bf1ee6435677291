"""All logs of a broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from storage_bench import LogBench, SeededChance, TurnedClock, add, read_offsets

from kavka.ids import TopicId, TopicPartition
from kavka.storage.disk import OsDisk
from kavka.storage.failures import LogDirectoryFailed
from kavka.storage.log_config import LogConfig
from kavka.storage.log_directory import LogDirectory
from kavka.storage.log_store import LogStore
from kavka.storage.meta_properties import MetaProperties

TOPIC_ID = TopicId(bytes(range(16)))
CONFIG = LogConfig(segment_bytes=1000)


class Stores:
    """Makes stores over the same two directories, as restarts do."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = OsDisk(threads=2)
        self.clock = TurnedClock()

    def new(self) -> LogStore:
        chance = SeededChance()
        return LogStore(
            [
                LogDirectory(self.disk, self.clock, chance, str(self.path / name))
                for name in ("d1", "d2")
            ],
            lambda topic: CONFIG,
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
        await asyncio.gather(*(store.create(tp, TOPIC_ID, CONFIG) for tp in partitions(6)))
        assert [len(report.sizes) for report in store.describe()] == [3, 3]
        one, other = await asyncio.gather(
            *(store.create(TopicPartition("same", 0), TOPIC_ID, CONFIG) for _ in range(2))
        )
        assert one is other
        await store.close({})

    asyncio.run(scenario())


def test_a_clean_stop_and_start_keeps_everything(stores: Stores) -> None:
    async def scenario() -> None:
        store = stores.new()
        await store.open()
        for tp in partitions(4):
            log = await store.create(tp, TOPIC_ID, CONFIG)
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
        tp = partitions(1)[0]
        log = await store.create(tp, TOPIC_ID, CONFIG)
        for _ in range(15):
            add(log, size=100)
        await store.write_checkpoints()
        for directory in store.directories:
            await directory.close(is_clean=False)

        store = stores.new()
        await store.open()
        again = store.get(tp)
        assert again is not None
        assert store.recoveries[tp].cut_bytes == 0
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
        tp = TopicPartition("t" * 249, 0)
        log = await store.create(tp, TOPIC_ID, CONFIG)
        for _ in range(15):
            add(log, size=100)
        found = log.read(12, 100, 15).range
        assert found is not None
        assert await store.delete(tp)
        assert not await store.delete(tp)
        assert store.get(tp) is None
        (name,) = (path.name for path in (stores.path / "d1").iterdir() if path.is_dir())
        assert name.endswith("-delete")
        assert len(name) == 255
        assert len(found.file.read_at(found.length, found.position)) == 100
        found.release()
        fresh = await store.create(tp, TOPIC_ID, CONFIG)
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
        tp = partitions(1)[0]
        await store.create(tp, TOPIC_ID, CONFIG)
        await store.delete(tp)
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
        offline, online = store.describe()
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
        logs = [await store.create(tp, TOPIC_ID, CONFIG) for tp in partitions(2)]
        logs[0].directory.fail(OSError(5, "Input/output error"))
        with pytest.raises(LogDirectoryFailed):
            add(logs[0])
        add(logs[1])
        await store.write_checkpoints()
        await store.write_high_watermarks(dict.fromkeys(partitions(2), 0))
        assert await store.delete_old_segments(lambda log: 0) == 0
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
