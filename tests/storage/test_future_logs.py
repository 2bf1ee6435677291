"""Moving a partition to another log directory."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicId, TopicPartition
from kavka.storage.compaction.cleanable_log import log_dirtiness
from kavka.storage.compaction.cleaning_pass import CleanerLimits, CleaningPass
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.disk.os_disk import OsDisk, OsFile
from kavka.storage.failures import LogClosed, LogDirectoryFailed
from kavka.storage.log.log import Log
from kavka.storage.log_config import LogConfig
from kavka.storage.store.log_store import LogStore
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.header import read_header
from support.storage_bench import (
    SeededChance,
    TurnedClock,
    add,
    make_batch,
    read_bytes,
    read_offsets,
)

TOPIC_ID = TopicId(bytes(range(16)))
CONFIG = LogConfig(segment_bytes=1000, file_delete_delay_ms=500)
WHERE = TopicPartition("my.topic-x", 0)
OLD_START, END = 12, 35


class FailingDisk(OsDisk):
    """The real disk, until as many changes of names and syncs are done as `left` says."""

    def __init__(self) -> None:
        super().__init__(threads=2)
        self.left: int | None = None
        self.changes = 0

    def count(self) -> None:
        self.changes += 1
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.EIO, "the test says so")

    def open(self, path: str, *, create: bool = False, private: bool = False) -> OsFile:
        if create:
            self.count()
        return super().open(path, create=create, private=private)

    def rename(self, old: str, new: str) -> None:
        self.count()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self.count()
        super().remove(path)

    def sync_directory(self, path: str) -> None:
        self.count()
        super().sync_directory(path)


class Mover:
    """A store over two directories, and one partition in the first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = FailingDisk()
        self.clock = TurnedClock()
        self.store = self.restarted()

    def restarted(self) -> LogStore:
        self.disk.left = None
        self.store = LogStore(
            [
                LogDirectory(self.disk, self.clock, SeededChance(), str(self.path / name))
                for name in ("d1", "d2")
            ],
            lambda topic: CONFIG,
        )
        return self.store

    async def fill(self) -> Log:
        await self.store.open()
        log = await self.store.create(WHERE, TOPIC_ID, CONFIG)
        for n in range(END):
            add(log, epoch=n // 10, producer_id=5, producer_epoch=0, base_sequence=n)
        log.delete_before(OLD_START, END)
        log.delete_old_segments(END)
        log.assign_epoch(9, END)
        return log

    async def copy(self) -> Log:
        """Copy everything, as the broker's mover does."""
        log = self.store.get(WHERE)
        assert log is not None
        future = await self.store.create_future(WHERE, str(self.path / "d2"))
        while data := read_bytes(log, max(future.log_end_offset, log.log_start_offset), 700):
            assert future.append_fetched(data) is not None
        return future

    def directories(self) -> dict[str, list[str]]:
        """Return the names of the partition's directories, without their unique parts."""
        return {
            name: sorted(
                p.name.partition(".topic-x-0")[2].split(".")[-1].rpartition("-")[2]
                for p in (self.path / name).iterdir()
                if p.is_dir()
            )
            for name in ("d1", "d2")
        }


@pytest.fixture
def mover(tmp_path: Path) -> Mover:
    return Mover(tmp_path)


def where_is(log: Log) -> Path:
    return Path(log.path)


def check_moved(log: Log) -> None:
    assert read_offsets(log) == [(n, n) for n in range(OLD_START, END)]
    first, *others = log.epochs.entries[:3]
    # The batches of a log do not say where the epoch at its start began.
    assert first in {(1, 10), (1, OLD_START)}
    assert others == [(2, 20), (3, 30)]
    assert log.producers.entries()[0].last_sequence == END - 1
    assert log.topic_id == TOPIC_ID


def put(log: Log, epoch: int, key: bytes) -> None:
    """Append a record that compaction can read."""
    builder = BatchBuilder()
    builder.append(key, b"value", 1_700_000_000_000)
    batch = builder.build(base_offset=log.log_end_offset, leader_epoch=epoch)
    log.append(batch, [read_header(batch)], epoch)


def test_a_log_keeps_the_epochs_of_what_was_compacted_away(
    mover: Mover, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a log that Apache Kafka compacted whole epochs may be gone, which its copy never sees."""
    # Its cleaner removes the first batches of epochs, too.
    monkeypatch.setattr("kavka.storage.compaction.cleaning_pass._packed_starts", lambda _: b"")

    async def always(_count: int) -> bool:
        return True

    async def scenario() -> None:
        await mover.store.open()
        config = LogConfig(segment_bytes=1000, cleanup_policy=frozenset({"compact"}))
        log = await mover.store.create(WHERE, TOPIC_ID, config)
        for n in range(END):
            put(log, n // 10, b"the same")
        log.roll()
        put(log, END // 10, b"another")
        await log.flush()
        found = await log_dirtiness(log, log.log_end_offset)
        await CleaningPass(log, found, CleanerLimits(1 << 20, 0.9, 1 << 16, always)).run()
        epochs = log.epochs.entries
        assert read_offsets(log)[0][0] > 20, "epochs 0 and 1 are gone"
        assert [epoch for epoch, _start in epochs] == [0, 1, 2, 3]
        await mover.copy()
        moved = await mover.store.swap_future(WHERE)
        assert moved.epochs.entries == epochs
        assert moved.end_offset_for(1) == (1, 20)
        await mover.store.close({})
        await mover.restarted().open()
        again = mover.store.get(WHERE)
        assert again is not None
        assert again.epochs.entries == epochs

    asyncio.run(scenario())


def test_a_partition_moves_to_another_directory(mover: Mover) -> None:
    async def scenario() -> None:
        old = await mover.fill()
        future = await mover.copy()
        assert mover.directories() == {"d1": [""], "d2": ["future"]}
        assert [sorted(report.future_sizes) for report in await mover.store.describe()] == [
            [],
            [WHERE],
        ]
        log = await mover.store.swap_future(WHERE)
        assert log is future is mover.store.get(WHERE)
        assert mover.store.future(WHERE) is None
        check_moved(log)
        assert log.latest_epoch == 9
        add(log, epoch=9)
        assert mover.directories() == {"d1": ["delete"], "d2": [""]}
        with pytest.raises(LogClosed):
            old.read(20, 100, END)
        mover.clock.now += 500
        await mover.store.remove_due()
        assert mover.directories() == {"d1": [], "d2": [""]}
        await mover.store.close({WHERE: 30})

        store = mover.restarted()
        await store.open()
        again = store.get(WHERE)
        assert again is not None
        assert again.directory.path == str(mover.path / "d2")
        assert again.log_end_offset == END + 1
        assert again.recovery.checked_segments == []
        assert store.high_watermarks == {WHERE: 30}
        assert not list(where_is(again).glob("replaces-current*"))
        await store.close({})

    asyncio.run(scenario())


def test_a_copy_goes_on_after_a_restart(mover: Mover) -> None:
    async def scenario() -> None:
        await mover.fill()
        future = await mover.store.create_future(WHERE, str(mover.path / "d2"))
        future.append_fetched(make_batch(OLD_START, epoch=1))
        await mover.store.close({})
        store = mover.restarted()
        await store.open()
        log, again = store.get(WHERE), store.future(WHERE)
        assert log is not None
        assert again is not None
        assert (log.log_end_offset, again.log_end_offset) == (END, OLD_START + 1)
        assert await store.create_future(WHERE, str(mover.path / "d2")) is again
        await store.close({})

    asyncio.run(scenario())


def test_a_move_that_is_given_up_leaves_the_log_as_it_was(mover: Mover) -> None:
    async def scenario() -> None:
        await mover.fill()
        await mover.copy()
        assert await mover.store.abandon_future(WHERE)
        assert not await mover.store.abandon_future(WHERE)
        await mover.store.remove_due()
        assert mover.directories() == {"d1": [""], "d2": []}
        await mover.store.close({})

    asyncio.run(scenario())


def test_a_deleted_partition_takes_its_copy_along(mover: Mover) -> None:
    async def scenario() -> None:
        await mover.fill()
        await mover.copy()
        assert await mover.store.delete(WHERE)
        assert mover.store.future(WHERE) is None
        assert mover.directories() == {"d1": ["delete"], "d2": ["delete"]}
        await mover.store.close({})

    asyncio.run(scenario())


def test_a_copy_of_no_log_is_set_aside(mover: Mover) -> None:
    async def scenario() -> None:
        log = await mover.fill()
        await mover.copy()
        await mover.store.close({})
        where_is(log).rename(mover.path / "elsewhere")
        store = mover.restarted()
        await store.open()
        assert store.future(WHERE) is None
        assert mover.directories() == {"d1": [], "d2": ["stray"]}
        await store.close({})

    asyncio.run(scenario())


def test_a_copy_in_a_wrong_place_is_refused(mover: Mover) -> None:
    async def scenario() -> None:
        await mover.fill()
        with pytest.raises(KafkaError) as refused:
            await mover.store.create_future(WHERE, str(mover.path / "d1"))
        assert refused.value.code is ErrorCode.INVALID_REQUEST
        with pytest.raises(KafkaError) as refused:
            await mover.store.create_future(WHERE, "/nowhere")
        assert refused.value.code is ErrorCode.LOG_DIR_NOT_FOUND
        await mover.store.close({})

    asyncio.run(scenario())


def fails_at(mover: Mover, step: int) -> Callable[[], Any]:
    """Return a scenario that moves the partition while the disks fail at the given step of the swap."""

    async def scenario() -> bool:
        await mover.fill()
        await mover.copy()
        for log in (mover.store.get(WHERE), mover.store.future(WHERE)):
            assert log is not None
            await log.directory.wait_for_tasks()
        mover.disk.left = step
        with contextlib.suppress(LogDirectoryFailed):
            await mover.store.swap_future(WHERE)
        has_failed = mover.disk.left < 0
        mover.disk.left = None
        await mover.store.close({})
        return has_failed

    return scenario


def test_a_swap_that_stops_anywhere_is_undone_or_finished(tmp_path: Path) -> None:
    outcomes = set()
    for step in range(100):
        mover = Mover(tmp_path / str(step))
        has_failed = asyncio.run(fails_at(mover, step)())

        async def restart(mover: Mover = mover) -> tuple[bool, bool]:
            store = mover.restarted()
            await store.open()
            log, future = store.get(WHERE), store.future(WHERE)
            assert log is not None
            is_moved = log.directory is store.directories[1]
            assert is_moved == (future is None)
            check_moved(log)
            await store.remove_due()
            names = mover.directories()
            assert names == ({"d1": [], "d2": [""]} if is_moved else {"d1": [""], "d2": ["future"]})
            if not is_moved:
                check_moved(await store.swap_future(WHERE))
            await store.close({})
            return is_moved, bool(list(where_is(log).glob("replaces-current")))

        outcomes.add(asyncio.run(restart()))
        if not has_failed:
            break
    else:
        pytest.fail("the swap never ends")
    assert {moved for moved, _ in outcomes} == {True, False}


def test_a_log_that_was_offline_when_its_copy_won_does_not_come_back(mover: Mover) -> None:
    async def scenario() -> None:
        log = await mover.fill()
        future = await mover.copy()
        (where_is(future) / "replaces-current").touch()
        await mover.store.close({})
        hidden = where_is(log).rename(mover.path / "hidden")
        (mover.path / "d1").rename(mover.path / "d1-away")
        (mover.path / "d1").touch()  # no directory, so it goes offline
        store = mover.restarted()
        await store.open()
        assert mover.store.get(WHERE) is not None
        await store.close({})

        (mover.path / "d1").unlink()
        (mover.path / "d1-away").rename(mover.path / "d1")
        hidden.rename(log.path)
        store = mover.restarted()
        await store.open()
        again = store.get(WHERE)
        assert again is not None
        assert again.directory is store.directories[1]
        assert mover.directories() == {"d1": ["delete"], "d2": [""]}
        await store.close({})

    asyncio.run(scenario())


def test_a_copy_of_what_was_truncated_is_aligned(mover: Mover) -> None:
    async def scenario() -> None:
        log = await mover.fill()
        future = await mover.copy()
        await log.truncate_to(25)
        for _ in range(25, END):
            add(log, epoch=11)
        assert await mover.store.align_future(WHERE) is future
        assert (future.log_end_offset, future.latest_epoch) == (25, 2)
        await mover.copy()
        moved = await mover.store.swap_future(WHERE)
        assert moved.epochs.entries == [(1, 10), (2, 20), (11, 25)]
        assert read_offsets(moved) == [(n, n) for n in range(OLD_START, END)]
        await mover.store.close({})

    asyncio.run(scenario())


def test_a_copy_that_ends_before_the_log_begins_is_restarted(mover: Mover) -> None:
    async def scenario() -> None:
        log = await mover.fill()
        future = await mover.store.create_future(WHERE, str(mover.path / "d2"))
        log.delete_before(30, END)
        await mover.store.create_future(WHERE, str(mover.path / "d2"))
        assert (future.log_start_offset, future.log_end_offset) == (30, 30)
        await mover.copy()
        check_moved_from(await mover.store.swap_future(WHERE), 30)
        await mover.store.close({})

    asyncio.run(scenario())


def check_moved_from(log: Log, start: int) -> None:
    assert read_offsets(log) == [(n, n) for n in range(start, END)]
    assert log.log_start_offset == start
