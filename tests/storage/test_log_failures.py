"""Slow and failing disks."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.failures import LogClosed, LogDirectoryFailed
from kavka.storage.log_config import NEVER, LogConfig
from support.storage_bench import BadDisk, LogBench, add, read_bytes, read_offsets

FULL = OSError(errno.ENOSPC, "No space left on device")
BROKEN = OSError(errno.EIO, "Input/output error")


@pytest.fixture
def disk() -> BadDisk:
    return BadDisk()


@pytest.fixture
def bad(tmp_path: Path, disk: BadDisk) -> LogBench:
    return LogBench(tmp_path / "bad", disk)


def test_a_full_disk_takes_the_directory_offline_and_cuts_the_batch(
    bad: LogBench, disk: BadDisk
) -> None:
    failed: list[LogDirectory] = []
    bad.directory = LogDirectory(
        disk, bad.clock, bad.chance, str(bad.path), on_failure=failed.append
    )

    async def scenario() -> None:
        log = await bad.open()
        add(log, size=100)
        disk.write_error = FULL
        with pytest.raises(LogDirectoryFailed, match="No space left"):
            add(log, size=100)
        disk.write_error = None
        assert log.log_end_offset == 1
        assert (bad.log_path / "00000000000000000000.log").stat().st_size == 100
        with pytest.raises(LogDirectoryFailed):
            add(log, size=100)
        with pytest.raises(LogDirectoryFailed):
            log.read(0, 100, 1)
        assert failed == [bad.directory]
        await log.close()

    asyncio.run(scenario())


def test_a_full_disk_under_the_index_leaves_nothing_of_the_batch(
    bad: LogBench, disk: BadDisk
) -> None:
    async def scenario() -> None:
        log = await bad.open(LogConfig(index_interval_bytes=0))
        disk.suffixes, disk.write_error = (".index",), FULL
        for _ in range(16):
            add(log, size=100)  # index entries are collected in memory
        with pytest.raises(LogDirectoryFailed):
            add(log, size=100)
        size = (bad.log_path / "00000000000000000000.log").stat().st_size
        assert size == log.log_end_offset * 100

    asyncio.run(scenario())


def test_a_full_disk_under_the_index_of_a_quiet_log_loses_no_batch(
    bad: LogBench, disk: BadDisk
) -> None:
    async def scenario() -> None:
        log = await bad.open(LogConfig(index_interval_bytes=0))
        for _ in range(5):
            add(log, size=100)
        disk.suffixes, disk.write_error = (".index",), FULL
        with pytest.raises(LogDirectoryFailed):
            await bad.directory.write_lagging_indexes()
        with pytest.raises(LogDirectoryFailed):
            add(log, size=100)
        disk.write_error = None
        await bad.crash(log)
        again = await bad.open(LogConfig(index_interval_bytes=0))
        assert again.recovery.cut_bytes == 0
        assert read_offsets(again) == [(n, n) for n in range(5)]

    asyncio.run(scenario())


def test_a_failed_sync_takes_the_directory_offline_and_is_not_retried(
    bad: LogBench, disk: BadDisk
) -> None:
    async def scenario() -> None:
        log = await bad.open()
        add(log)
        disk.sync_error = BROKEN
        with pytest.raises(LogDirectoryFailed):
            await log.flush()
        disk.sync_error = None
        with pytest.raises(LogDirectoryFailed):
            await log.flush()
        assert log.recovery_point == 0

    asyncio.run(scenario())


async def make_slow(bad: LogBench) -> None:
    """Let the directory believe that a write took long."""
    bad.directory.writes.note_duration(bad.clock.tick_ms() - 1000)


def test_a_slow_disk_queues_writes_in_order_and_becomes_fast_again(
    bad: LogBench, disk: BadDisk
) -> None:
    async def scenario() -> None:
        log = await bad.open(LogConfig(segment_bytes=500))
        add(log, size=100)
        await make_slow(bad)
        waiting = [add(log, size=100).written for _ in range(20)]
        assert log.log_end_offset == 21
        assert log.written_offset == 1
        assert read_bytes(log, 0, end_offset=21) == read_bytes(log, 0, end_offset=1)
        for written in waiting:
            assert written is not None
            await written
        assert log.written_offset == 21
        assert read_offsets(log) == [(n, n) for n in range(21)]
        await bad.directory.wait_for_tasks()
        assert add(log, size=100).written is None
        await log.close()
        async with bad.log(LogConfig(segment_bytes=500), recovery_point=22, is_clean=True) as log:
            assert log.recovery.rebuilt_segments == []
            assert read_offsets(log) == [(n, n) for n in range(22)]

    asyncio.run(scenario())


def test_a_queued_write_that_fails_fails_all_behind_it(bad: LogBench, disk: BadDisk) -> None:
    async def scenario() -> None:
        log = await bad.open()
        add(log, size=100)
        await make_slow(bad)
        disk.write_error = FULL
        waiting = [add(log, size=100).written for _ in range(3)]
        for written in waiting:
            assert written is not None
            with pytest.raises(LogDirectoryFailed):
                await written
        assert log.written_offset == 1
        assert (bad.log_path / "00000000000000000000.log").stat().st_size == 100

    asyncio.run(scenario())


def test_one_slow_directory_does_not_stall_another(bad: LogBench, bench: LogBench) -> None:
    async def scenario() -> None:
        slow, fast = await bad.open(), await bench.open()
        await make_slow(bad)
        assert add(slow).written is not None
        assert add(fast).written is None
        await bad.directory.wait_for_tasks()
        await slow.close()
        await fast.close()

    asyncio.run(scenario())


def test_flush_messages_lets_the_response_wait_for_the_medium(bad: LogBench, disk: BadDisk) -> None:
    async def scenario() -> None:
        log = await bad.open(LogConfig(flush_messages=2))
        assert add(log).written is None
        waiting = [add(log).written for _ in range(3)]
        disk.syncs.clear()
        for written in waiting:
            assert written is not None
            await written
        assert disk.syncs.count("00000000000000000000.log") == 1
        assert log.recovery_point == 4
        await log.close()

    asyncio.run(scenario())


def test_a_roll_is_flushed_in_the_background(bad: LogBench, disk: BadDisk) -> None:
    async def scenario() -> None:
        log = await bad.open(LogConfig(segment_bytes=250))
        for _ in range(3):
            add(log, size=100)
        await bad.directory.wait_for_tasks()
        assert log.recovery_point == 3
        assert {"00000000000000000000.log", "00000000000000000000.index"} <= set(disk.syncs)
        assert (bad.log_path / "00000000000000000002.snapshot").exists()
        await log.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(("flush_messages", "synced"), [(1, True), (NEVER, False)])
def test_what_a_killed_process_wrote_is_synced_where_every_batch_is(
    bad: LogBench, disk: BadDisk, flush_messages: int, synced: bool
) -> None:
    """It counts as replicated when it is served again, and nothing else would flush it."""

    async def scenario() -> None:
        log = await bad.open(LogConfig())
        add(log, size=100)
        await bad.crash(log)
        disk.syncs.clear()
        log = await bad.open(LogConfig(flush_messages=flush_messages))
        assert ("00000000000000000000.log" in disk.syncs) is synced
        await log.close()

    asyncio.run(scenario())


def test_cold_bytes_are_loaded_in_the_pool(bad: LogBench, disk: BadDisk) -> None:
    async def scenario() -> None:
        log = await bad.open(LogConfig(segment_bytes=20_000, index_interval_bytes=300))
        for _ in range(1000):
            add(log, size=100)
        await bad.directory.wait_for_tasks()
        disk.is_cold = True
        read = log.read(77, 1000, 1000)
        assert not read.is_cached
        assert read.range is None
        disk.pooled.clear()
        found = (await read.load(disk)).range
        assert found is not None
        assert (found.position, found.length) == (7700, 1000)
        assert "read_at" in disk.pooled
        found.release()
        await log.close()

    asyncio.run(scenario())


def test_a_read_stays_as_cold_as_it_was_found_until_it_is_loaded(
    bad: LogBench, disk: BadDisk
) -> None:
    async def scenario() -> None:
        log = await bad.open(LogConfig())
        add(log, size=100)
        await bad.directory.wait_for_tasks()
        disk.is_cold = True
        read = log.read(0, 1000, 1)
        assert not read.is_cached
        disk.is_cold = False
        assert not read.is_cached
        loaded = await read.load(disk)
        assert loaded.is_cached
        assert loaded.range is not None
        loaded.range.release()
        await log.close()

    asyncio.run(scenario())


def test_a_cold_read_of_a_removed_segment_is_out_of_range(bad: LogBench, disk: BadDisk) -> None:
    async def scenario() -> None:
        log = await bad.open(LogConfig(segment_bytes=500, retention_bytes=0))
        for _ in range(1000):
            add(log, size=100)
        disk.is_cold = True
        read = log.read(7, 1000, 1000)
        log.delete_old_segments(1000)
        with pytest.raises(Exception, match="OFFSET_OUT_OF_RANGE"):
            await read.load(disk)
        await bad.directory.wait_for_tasks()
        await log.close()

    asyncio.run(scenario())


def test_a_cold_read_of_a_log_that_was_deleted_is_refused(bad: LogBench, disk: BadDisk) -> None:
    async def scenario() -> None:
        log = await bad.open(LogConfig(segment_bytes=1000, index_interval_bytes=100))
        for _ in range(25):
            add(log, size=100)
        await bad.directory.wait_for_tasks()
        disk.is_cold = True
        read = log.read(3, 1000, 25)
        assert not read.is_cached
        await log.abandon("events-0.abc-delete")
        with pytest.raises(LogClosed):
            await read.load(disk)
        with pytest.raises(LogClosed):
            log.read(3, 1000, 25)
        with pytest.raises(LogClosed):
            log.aborted_transactions(0, 25)
        with pytest.raises(LogClosed):
            await log.offset_for_timestamp(0)
        with pytest.raises(LogClosed):
            await log.latest_timestamp()
        assert bad.directory.failure is None

    asyncio.run(scenario())


def test_a_search_by_time_in_a_log_that_goes_meanwhile_is_refused(
    bad: LogBench, disk: BadDisk
) -> None:
    async def scenario() -> None:
        log = await bad.open(LogConfig(segment_bytes=1000, index_interval_bytes=100))
        for number in range(25):
            add(log, size=100, timestamp=number)
        await bad.directory.wait_for_tasks()
        disk.is_cold = True
        search = asyncio.ensure_future(log.offset_for_timestamp(8))
        await asyncio.sleep(0)
        await log.abandon("events-0.abc-delete")
        with pytest.raises(LogClosed):
            await search
        assert bad.directory.failure is None

    asyncio.run(scenario())


def test_a_segment_that_is_sealed_at_the_recovery_point_has_its_indexes_synced(
    bad: LogBench, disk: BadDisk
) -> None:
    async def scenario() -> None:
        log = await bad.open(LogConfig(index_interval_bytes=100))
        for _ in range(5):
            add(log, size=100)
        await log.flush()
        assert log.recovery_point == log.log_end_offset
        disk.syncs.clear()
        log.roll()
        await bad.directory.wait_for_tasks()
        assert {f"{0:020d}.index", f"{0:020d}.timeindex"} <= set(disk.syncs)
        await log.close()

    asyncio.run(scenario())


def test_no_segment_goes_after_an_older_one_that_could_not(
    bad: LogBench, disk: BadDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        log = await bad.open(LogConfig(segment_bytes=1000, retention_bytes=0))
        for _ in range(35):
            add(log, size=100)
        await bad.directory.wait_for_tasks()
        rename = disk.rename

        def fails_once(old: str, new: str) -> None:
            monkeypatch.setattr(disk, "rename", rename)
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(disk, "rename", fails_once)
        assert log.delete_old_segments(15) == 1
        assert log.delete_old_segments(25) == 1
        await bad.directory.wait_for_tasks()
        assert bad.directory.failure is not None
        assert {f"{base:020d}.log" for base in (0, 10, 20, 30)} <= set(disk.list(log.path))
        await log.close()

    asyncio.run(scenario())
