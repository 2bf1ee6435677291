"""The index files of the segment that is appended to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from struct import iter_unpack

import pytest

from kavka.storage.log.log import Log
from kavka.storage.log_config import LogConfig
from support.storage_bench import LogBench, RenamingDisk, add, read_offsets

EVERY_BATCH = LogConfig(index_interval_bytes=0)


def entries(log: Log, suffix: str) -> list[tuple[int, int]]:
    """Return what the newest index file of a kind has."""
    path = max(Path(log.path).glob(f"*{suffix}"))
    return list(iter_unpack(">ii" if suffix == ".index" else ">qi", path.read_bytes()))


def positions(log: Log) -> dict[int, int]:
    """Return where each batch of the active segment begins, by its last offset."""
    return {outline.last_offset: outline.position for outline in log.segments[-1].outlines(0)}


def add_later(bench: LogBench, log: Log, count: int) -> None:
    """Append batches, each a millisecond after the one before."""
    for _ in range(count):
        bench.clock.now += 1
        add(log, size=100, timestamp=bench.clock.now)


def test_indexes_of_a_busy_log_are_on_disk_as_it_grows(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(EVERY_BATCH) as log:
            add_later(bench, log, 40)
            found = entries(log, ".index")
            assert len(found) == 32
            assert set(found) <= set(positions(log).items())
            assert [offset for _, offset in entries(log, ".timeindex")] == list(range(1, 33))

    asyncio.run(scenario())


def test_indexes_of_a_quiet_log_are_brought_up_to_date(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(EVERY_BATCH) as log:
            add_later(bench, log, 3)
            await bench.directory.write_lagging_indexes()
            assert entries(log, ".index") == [(1, 100), (2, 200)]
            assert len(entries(log, ".timeindex")) == 2
            add_later(bench, log, 1)
            await bench.directory.write_lagging_indexes()
            assert entries(log, ".index") == [(1, 100), (2, 200), (3, 300)]

    asyncio.run(scenario())


def test_a_log_too_short_for_an_entry_has_empty_index_files(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log() as log:
            await bench.directory.write_lagging_indexes()
            assert not list(bench.log_path.glob("*index"))
            add(log)
            await bench.directory.write_lagging_indexes()
            assert (entries(log, ".index"), entries(log, ".timeindex")) == ([], [])

    asyncio.run(scenario())


def test_indexes_that_recovery_rebuilt_are_on_disk_before_the_next_append(
    bench: LogBench,
) -> None:
    async def scenario() -> None:
        log = await bench.open(EVERY_BATCH)
        add_later(bench, log, 5)
        await bench.crash(log)
        # An entry that no batch has written must not survive an unclean stop.
        (bench.log_path / f"{0:020d}.index").write_bytes(b"\0\0\0\7\0\0\1\1")
        log = await bench.open(EVERY_BATCH)
        await bench.directory.write_lagging_indexes()
        assert entries(log, ".index") == [(n, 100 * n) for n in range(1, 5)]
        await bench.directory.wait_for_tasks()
        await log.close()

    asyncio.run(scenario())


def test_indexes_of_a_log_that_is_gone_are_left_alone(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await bench.open(EVERY_BATCH)
        add_later(bench, log, 3)
        await log.abandon("events-0.0-delete")
        await bench.directory.write_lagging_indexes()
        assert sorted(path.suffix for path in bench.path.glob("*-delete/*")) == [".log"]

    asyncio.run(scenario())


def test_a_slow_disk_is_not_waited_for(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(EVERY_BATCH) as log:
            add_later(bench, log, 3)
            bench.directory.writes.note_duration(bench.clock.tick_ms() - 1000)
            await bench.directory.write_lagging_indexes()
            assert not list(bench.log_path.glob("*index"))
            add_later(bench, log, 1)
            await bench.directory.wait_for_tasks()
            await bench.directory.write_lagging_indexes()
            assert len(entries(log, ".index")) == 3
            assert read_offsets(log) == [(n, n) for n in range(4)]

    asyncio.run(scenario())


@pytest.mark.parametrize("is_rolled", [False, True])
def test_indexes_of_a_log_that_is_being_renamed_are_written_afterwards(
    tmp_path: Path, is_rolled: bool
) -> None:
    async def scenario() -> None:
        disk = RenamingDisk()
        bench = LogBench(tmp_path / "data", disk)
        async with bench.log(EVERY_BATCH, name="events-0.0-future") as log:
            add_later(bench, log, 3)
            if is_rolled:
                log.roll()
                await bench.directory.wait_for_tasks()
                add_later(bench, log, 3)
            disk.renamed = bench.directory.write_lagging_indexes
            await log.move_to("events-0")
            assert bench.directory.failure is None
            await bench.directory.write_lagging_indexes()
            assert entries(log, ".index") == [(1, 100), (2, 200)]
            assert read_offsets(log) == [(n, n) for n in range(6 if is_rolled else 3)]
        assert [path.name for path in bench.path.iterdir() if path.is_dir()] == ["events-0"]
        bench.close()

    asyncio.run(scenario())
