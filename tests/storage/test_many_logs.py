"""Cost of a start, a stop and deletions with many logs: operations are counted, with N logs and with 2N."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kavka.ids import TopicId, TopicPartition
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.disk.os_disk import OsDisk, OsFile
from kavka.storage.log.log import Log
from kavka.storage.log.producer_snapshot import snapshot_name
from kavka.storage.log_config import LogConfig
from kavka.storage.store.log_store import LogStore
from support.storage_bench import SeededChance, TurnedClock, add

TOPIC_ID = TopicId(bytes(range(16)))
CONFIG = LogConfig()
COUNTS = [8, 16]


class CountedFile(OsFile):
    """A file whose syncs are counted."""

    __slots__ = ("_counts",)

    def __init__(self, fd: int, counts: Counter[str]) -> None:
        super().__init__(fd)
        self._counts = counts

    def sync(self) -> None:
        self._counts["file synced"] += 1
        super().sync()


class CountedDisk(OsDisk):
    """A disk that counts what waits for the medium, and ways to the pool."""

    def __init__(self) -> None:
        super().__init__(threads=4)
        self.counts: Counter[str] = Counter()

    def open(self, path: str, *, create: bool = False, private: bool = False) -> OsFile:
        plain = super().open(path, create=create, private=private)
        return CountedFile(plain.fileno(), self.counts)

    def sync_directory(self, path: str) -> None:
        self.counts["directory synced"] += 1
        # Logs share the syncs of their parent: how many there are depends on how fast the disk is.
        self.counts["parent synced"] += Path(path).parent.name.startswith("test_")
        super().sync_directory(path)

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        self.counts["way to the pool"] += 1
        return await super().run(work, *args)


class Life:
    """Starts over one directory, each of them with counters at zero."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.disk = CountedDisk()

    async def start(self) -> LogStore:
        self.disk.counts.clear()
        directory = LogDirectory(self.disk, TurnedClock(), SeededChance(), str(self._path))
        store = LogStore([directory], lambda topic: CONFIG)
        await store.open()
        return store

    async def stop(self, store: LogStore) -> Counter[str]:
        self.disk.counts.clear()
        await store.close({})
        return self.disk.counts.copy()

    async def kill(self, store: LogStore) -> None:
        for directory in store.directories:
            await directory.close(is_clean=False)


async def filled(store: LogStore, count: int, records: int = 1) -> list[Log]:
    """Make logs with so many batches each."""
    logs = [
        await store.create(TopicPartition("t", number), TOPIC_ID, CONFIG) for number in range(count)
    ]
    for log in logs:
        for _ in range(records):
            add(log)
    return logs


def per_log(
    path: Path, story: Callable[[Life, int], Coroutine[Any, Any, Counter[str]]]
) -> Counter[str]:
    """Return what each further log costs: the counts with 16 logs less those with 8, for one log."""
    less, more = (asyncio.run(story(Life(path / str(count)), count)) for count in COUNTS)
    return Counter({what: (more[what] - less[what]) / COUNTS[0] for what in more | less})


@pytest.fixture(autouse=True)
def _directories(tmp_path: Path) -> None:
    for count in COUNTS:
        (tmp_path / str(count)).mkdir()


def test_a_stop_syncs_nothing_of_logs_that_never_had_a_record(tmp_path: Path) -> None:
    async def story(life: Life, count: int) -> Counter[str]:
        store = await life.start()
        await filled(store, count, records=0)
        return await life.stop(store)

    costs = per_log(tmp_path, story)
    assert set(costs.values()) == {0}


def test_a_stop_syncs_the_directory_of_a_log_once(tmp_path: Path) -> None:
    """Its files are the log, the time index, the leader epochs and the topic id; the snapshot has a checksum."""

    async def story(life: Life, count: int) -> Counter[str]:
        store = await life.start()
        for log in await filled(store, count):
            log.assign_epoch(3, 0)
        return await life.stop(store)

    costs = per_log(tmp_path, story)
    assert costs["file synced"] == 4
    assert costs["directory synced"] - costs["parent synced"] == 1
    assert costs["parent synced"] <= 1
    assert costs["way to the pool"] <= 3


def test_a_stop_does_nothing_for_logs_that_have_not_changed(tmp_path: Path) -> None:
    async def story(life: Life, count: int) -> Counter[str]:
        store = await life.start()
        await filled(store, count)
        await life.stop(store)
        store = await life.start()
        for log in store:
            # Each start gives the partitions to a leader, which has written nothing yet.
            log.assign_epoch(7, log.log_end_offset)
        return await life.stop(store)

    costs = per_log(tmp_path, story)
    assert set(costs.values()) == {0}


def test_a_start_loads_many_logs_in_one_call_of_the_pool(tmp_path: Path) -> None:
    async def story(life: Life, count: int) -> Counter[str]:
        store = await life.start()
        await filled(store, count)
        await life.stop(store)
        store = await life.start()
        assert [log.log_end_offset for log in store] == [1] * count
        counts = life.disk.counts.copy()
        await life.stop(store)
        return counts

    costs = per_log(tmp_path, story)
    assert set(costs.values()) == {0}


def test_a_start_after_a_kill_recovers_many_logs_in_one_call_of_the_pool(tmp_path: Path) -> None:
    async def story(life: Life, count: int) -> Counter[str]:
        store = await life.start()
        await filled(store, count)
        await life.kill(store)
        store = await life.start()
        assert len(store.recoveries) == count
        counts = life.disk.counts.copy()
        await life.stop(store)
        return counts

    costs = per_log(tmp_path, story)
    assert set(costs.values()) == {0}


def test_logs_whose_names_changed_together_share_the_sync_of_the_log_directory(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        life = Life(tmp_path / "8")
        store = await life.start()
        (directory,) = store.directories
        life.disk.counts.clear()
        await asyncio.gather(*(directory.sync_names() for _ in range(8)))
        assert life.disk.counts["directory synced"] == 1
        await directory.sync_names()
        assert life.disk.counts["directory synced"] == 2
        await life.stop(store)

    asyncio.run(scenario())


def test_removals_that_are_due_together_are_one_call_of_the_pool(tmp_path: Path) -> None:
    async def story(life: Life, count: int) -> Counter[str]:
        store = await life.start()
        removed: list[int] = []
        for number in range(count):
            store.directories[0].remove_later(lambda number=number: removed.append(number), 0)  # type: ignore[misc]
        life.disk.counts.clear()
        await store.remove_due()
        assert removed == list(range(count))
        counts = life.disk.counts.copy()
        await life.stop(store)
        return counts

    costs = per_log(tmp_path, story)
    assert costs["way to the pool"] == 0


def test_a_checkpoint_that_says_the_same_is_not_written_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        life = Life(tmp_path / "8")
        store = await life.start()
        (log,) = await filled(store, 1)
        topic_partition = log.topic_partition
        await store.write_high_watermarks({topic_partition: 1})
        life.disk.counts.clear()
        await store.write_high_watermarks({topic_partition: 1})
        assert not life.disk.counts
        add(log)
        await store.write_high_watermarks({topic_partition: 2})
        assert life.disk.counts["file synced"] == 1
        await life.stop(store)

    asyncio.run(scenario())


# What is left out at a stop may not be missed at the next one.


def test_the_first_record_of_a_log_that_was_empty_at_a_stop_makes_its_names_durable(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        life = Life(tmp_path / "8")
        store = await life.start()
        await filled(store, 1, records=0)
        await life.stop(store)
        store = await life.start()
        (log,) = store
        add(log)
        life.disk.counts.clear()
        await log.flush()
        assert life.disk.counts["directory synced"] == 2, "its own, and the log directory"
        await life.stop(store)

    asyncio.run(scenario())


@pytest.mark.parametrize("change", ["a record", "an epoch", "a cut", "a roll"])
def test_a_log_that_was_changed_since_the_start_is_finished_at_the_stop(
    tmp_path: Path, change: str
) -> None:
    async def scenario() -> None:
        life = Life(tmp_path / "8")
        store = await life.start()
        await filled(store, 1, records=3)
        await life.stop(store)
        store = await life.start()
        (log,) = store
        if change == "a record":
            add(log)
        elif change == "an epoch":
            log.epochs.assign(9, 2)
        elif change == "a cut":
            await log.truncate_to(1)
        else:
            log.roll()
        counts = await life.stop(store)
        assert counts["directory synced"] > 4, "more than the checkpoints and the marker"
        epochs, end = log.epochs.entries, log.log_end_offset
        store = await life.start()
        (again,) = store
        assert (again.epochs.entries, again.log_end_offset) == (epochs, end)
        assert store.recoveries == {}
        await life.stop(store)

    asyncio.run(scenario())


def test_a_log_that_a_kill_left_empty_is_finished_at_the_stop(tmp_path: Path) -> None:
    """The process that was killed may have cut it, and not have synced that."""

    async def scenario() -> None:
        life = Life(tmp_path / "8")
        store = await life.start()
        await filled(store, 1, records=0)
        await life.kill(store)
        store = await life.start()
        counts = await life.stop(store)
        assert counts["file synced"] > 4

    asyncio.run(scenario())


@pytest.mark.parametrize("left", [b"", bytes(30)])
def test_producers_are_known_when_a_host_crash_takes_the_snapshot_of_a_stop(
    tmp_path: Path, left: bytes
) -> None:
    async def scenario() -> None:
        life = Life(tmp_path / "8")
        store = await life.start()
        (log,) = await filled(store, 1, records=0)
        for number in range(3):
            add(log, producer_id=7, producer_epoch=0, base_sequence=number)
        log.roll()
        add(log, producer_id=8, producer_epoch=0, base_sequence=0)
        known = log.producers.entries()
        await life.stop(store)
        path = tmp_path / "8" / str(log.topic_partition)
        (path / snapshot_name(4)).write_bytes(left)
        store = await life.start()
        (again,) = store
        assert again.producers.entries() == known
        assert store.recoveries == {}
        await life.stop(store)
        assert (path / snapshot_name(4)).read_bytes() not in (left, b"")

    asyncio.run(scenario())
