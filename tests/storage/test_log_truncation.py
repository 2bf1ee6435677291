"""Truncation for followers, DeleteRecords and retention."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kavka.storage.failures import OffsetOutOfRange
from kavka.storage.log_config import LogConfig
from support.storage_bench import LogBench, RenamingDisk, add, read_offsets

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=250)


def test_follower_truncates_to_the_leaders_epoch(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            for number in range(30):
                add(log, size=100, epoch=number // 10)
            end = log.epochs.end_offset_for(1, log.log_end_offset).start_offset
            assert await log.truncate_to(end)
            assert log.log_end_offset == 20
            assert log.epochs.entries == [(0, 0), (1, 10)]
            add(log, size=100, epoch=5)
            assert read_offsets(log) == [(n, n) for n in range(21)]

    asyncio.run(scenario())


def test_truncation_ends_before_the_batch_that_holds_the_offset(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            for _ in range(4):
                add(log, 10, size=100)
            await log.truncate_to(25)
            assert log.log_end_offset == 20
            assert not await log.truncate_to(20)

    asyncio.run(scenario())


def test_truncation_takes_producers_and_recovery_point_back(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            for sequence in range(35):
                add(log, size=100, producer_id=3, producer_epoch=0, base_sequence=sequence)
            await log.flush()
            await log.truncate_to(12)
            assert log.recovery_point == 12
            assert log.producers.entries()[0].last_sequence == 11
            names = {path.name for path in bench.log_path.iterdir()}
            assert "00000000000000000020.snapshot" not in names

    asyncio.run(scenario())


def test_truncation_survives_a_crash(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        for _ in range(35):
            add(log, size=100)
        await log.truncate_to(12)
        for _ in range(3):
            add(log, size=120)
        await bench.crash(log)
        async with bench.log(SMALL) as log:
            assert read_offsets(log) == [(n, n) for n in range(15)]

    asyncio.run(scenario())


def test_truncation_below_the_first_segment_restarts_the_log(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            await log.truncate_fully_and_start_at(100)
            for _ in range(5):
                add(log, size=100)
            await log.truncate_to(50)
            assert (log.log_start_offset, log.log_end_offset) == (50, 50)
            add(log)
            assert read_offsets(log) == [(50, 50)]

    asyncio.run(scenario())


def test_an_emptied_log_remembers_where_it_begins(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        for _ in range(25):
            add(log, size=100)
        await log.truncate_fully_and_start_at(1000)
        await bench.crash(log)
        async with bench.log(SMALL) as log:
            assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)

    asyncio.run(scenario())


def test_deleted_records_are_not_read_and_their_segments_go(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            for _ in range(35):
                add(log, size=100, epoch=2)
            assert log.delete_before(25, 35) == 25
            assert log.delete_before(10, 35) == 25
            with pytest.raises(OffsetOutOfRange):
                log.delete_before(36, 35)
            assert log.delete_old_segments(35) == 2
            assert log.segments[0].base_offset == 20
            assert log.log_start_offset == 25
            assert log.epochs.entries == [(2, 0)]

    asyncio.run(scenario())


def test_retention_by_bytes_keeps_at_least_the_limit(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            for _ in range(35):
                add(log, size=100)
            for limit, left in ((3500, 0), (2501, 0), (2500, 1), (1501, 0), (1500, 1), (400, 1)):
                log.config = LogConfig(segment_bytes=1000, retention_bytes=limit)
                assert log.delete_old_segments(35) == left
                assert log.size >= limit

    asyncio.run(scenario())


def test_retention_by_time_goes_by_the_newest_record(bench: LogBench) -> None:
    async def scenario() -> None:
        config = LogConfig(segment_bytes=1000, retention_ms=10_000)
        async with bench.log(config) as log:
            now = bench.clock.now
            for number in range(25):
                add(log, size=100, timestamp=now - 30_000 + number * 1000)
            # The first segment's newest record is 21 s old, the second's 11 s, the third's 6 s.
            assert log.delete_old_segments(25) == 2
            assert log.log_start_offset == 20
            bench.clock.now += 100_000
            assert log.delete_old_segments(25) == 1
            assert (log.log_start_offset, log.log_end_offset) == (25, 25)
            assert log.delete_old_segments(25) == 0

    asyncio.run(scenario())


def test_retention_never_passes_the_high_watermark(bench: LogBench) -> None:
    async def scenario() -> None:
        config = LogConfig(segment_bytes=1000, retention_bytes=0)
        async with bench.log(config) as log:
            for _ in range(35):
                add(log, size=100)
            assert log.delete_old_segments(19) == 1
            assert log.log_start_offset == 10

    asyncio.run(scenario())


def test_a_compacted_log_keeps_old_segments(bench: LogBench) -> None:
    async def scenario() -> None:
        config = LogConfig(
            segment_bytes=1000,
            retention_bytes=0,
            retention_ms=0,
            cleanup_policy=frozenset({"compact"}),
        )
        async with bench.log(config) as log:
            for _ in range(35):
                add(log, size=100, timestamp=5)
            assert log.delete_old_segments(35) == 0

    asyncio.run(scenario())


def test_removed_segments_wait_for_the_delay(bench: LogBench) -> None:
    async def scenario() -> None:
        config = LogConfig(segment_bytes=1000, retention_bytes=0, file_delete_delay_ms=500)
        async with bench.log(config) as log:
            for _ in range(25):
                add(log, size=100)
            await bench.directory.wait_for_tasks()
            log.delete_old_segments(25)
            await bench.directory.wait_for_tasks()
            deleted = sorted(p.name for p in bench.log_path.iterdir() if p.suffix == ".deleted")
            assert "00000000000000000010.snapshot.deleted" in deleted
            assert "00000000000000000000.timeindex.deleted" in deleted
            await bench.directory.remove_due()
            assert (
                sorted(p.name for p in bench.log_path.iterdir() if p.suffix == ".deleted")
                == deleted
            )
            bench.clock.now += 500
            await bench.directory.remove_due()
            assert not [p for p in bench.log_path.iterdir() if p.suffix == ".deleted"]

    asyncio.run(scenario())


def test_segments_that_went_are_removed_from_a_directory_that_is_renamed_meanwhile(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        disk = RenamingDisk()
        bench = LogBench(tmp_path / "data", disk)
        config = LogConfig(segment_bytes=300, file_delete_delay_ms=0)
        async with bench.log(config, name="events-0.0-future") as log:
            for _ in range(9):
                add(log)
            await log.truncate_to(2)
            assert list(bench.path.glob("*-future/*.deleted"))
            disk.renamed = bench.directory.remove_due
            await log.move_to("events-0")
            await bench.directory.remove_due()
            assert not list(bench.path.glob("*/*.deleted"))
            assert read_offsets(log) == [(0, 0), (1, 1)]
        bench.close()

    asyncio.run(scenario())
