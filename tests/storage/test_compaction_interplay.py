"""A log that changes while it is compacted: it is cut, deleted, read, flushed too late, or on a bad disk."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kavka.ids import TopicPartition
from kavka.simulation.environment import SimEnvironment
from kavka.simulation.world import World
from kavka.storage.compaction.cleanable_log import Dirtiness, log_dirtiness
from kavka.storage.compaction.cleaning_pass import (
    CleanerLimits,
    CleaningPass,
    PassEnded,
    Uncleanable,
)
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.log.log import Log
from kavka.storage.log_config import LogConfig
from kavka.storage.store.future_logs import discard
from support.compaction_bench import (
    DAY_MS,
    Producer,
    Written,
    batches,
    clean,
    end_transaction,
    records,
    survivors,
    write,
)
from support.storage_bench import LogBench, read_offsets

TP = TopicPartition("t", 0)

CONFIG = LogConfig(
    segment_bytes=600, index_interval_bytes=150, cleanup_policy=frozenset({"compact"})
)
KEYS = [b"a", b"b", b"c", b"d", b"e"]
BLOCK_BYTES = 300


async def interrupted(
    log: Log, at_block: int, happens: Callable[[], Awaitable[Any]], seen: Dirtiness | None = None
) -> None:
    """Do a pass in which something `happens` after so many blocks were read or written."""
    blocks = 0

    async def spend(count: int) -> bool:
        nonlocal blocks
        blocks += 1
        if blocks == at_block:
            await happens()
        return True

    limits = CleanerLimits(1 << 20, 0.9, BLOCK_BYTES, spend)
    found = seen or await log_dirtiness(log, log.log_end_offset)
    await CleaningPass(log, found, limits).run()
    assert blocks >= at_block


def fill(log: Log, written: Written, now_ms: int, count: int = 60) -> None:
    for index in range(count):
        write(log, written, [(KEYS[index % 5], b"value %d" % index)], now_ms)
    log.roll()


def cut(written: Written, offset: int) -> None:
    """Forget what was cut off."""
    written.records = {o: record for o, record in written.records.items() if o < offset}


@pytest.mark.parametrize("at_block", [1, 2, 20, 33, 38, 42, 60])
def test_a_segment_that_was_cut_and_written_again_is_not_replaced_by_what_it_was(
    bench: LogBench, at_block: int
) -> None:
    async def story() -> None:
        async with bench.log(CONFIG) as log:
            written = Written()
            fill(log, written, bench.clock.now)

            async def cut_and_fill() -> None:
                await log.truncate_to(3)
                cut(written, log.log_end_offset)
                for index in range(30):
                    write(log, written, [(b"z%d" % index, b"new")], bench.clock.now)
                log.roll()
                await bench.directory.wait_for_tasks()

            with pytest.raises(PassEnded):
                await interrupted(log, at_block, cut_and_fill)
            found = records(log)
            assert survivors(written.records, 33).items() <= found.items()
            assert found.items() <= written.records.items()

    asyncio.run(story())


@pytest.mark.parametrize("at_block", [1, 20, 33, 40, 60])
def test_a_log_that_is_deleted_and_removed_during_a_pass_takes_no_directory_offline(
    bench: LogBench, at_block: int
) -> None:
    async def story() -> None:
        log = await bench.open(CONFIG)
        fill(log, Written(), bench.clock.now)
        await bench.directory.wait_for_tasks()

        async def delete() -> None:
            await discard(log, 0)
            await bench.directory.remove_due()
            assert not bench.disk.exists(log.path)

        with pytest.raises(PassEnded):
            await interrupted(log, at_block, delete)
        assert bench.directory.failure is None
        await bench.directory.wait_for_tasks()

    asyncio.run(story())


def test_a_log_whose_dirty_segments_went_before_the_pass_began_is_not_uncleanable(
    bench: LogBench,
) -> None:
    async def story() -> None:
        async with bench.log(CONFIG) as log:
            fill(log, Written(), bench.clock.now)
            seen = await log_dirtiness(log, log.log_end_offset)
            log.delete_before(60, 60)
            assert log.delete_old_segments(60)
            with pytest.raises(PassEnded):
                await interrupted(log, 0, bench.directory.wait_for_tasks, seen)

    asyncio.run(story())


def test_a_log_that_was_closed_before_the_pass_began_ends_it(bench: LogBench) -> None:
    async def story() -> None:
        log = await bench.open(CONFIG)
        fill(log, Written(), bench.clock.now)
        await bench.directory.wait_for_tasks()
        seen = await log_dirtiness(log, log.log_end_offset)
        await log.close()
        with pytest.raises(PassEnded):
            await interrupted(log, 0, bench.directory.wait_for_tasks, seen)

    asyncio.run(story())


def test_a_file_that_is_shorter_than_its_segment_makes_the_log_uncleanable(bench: LogBench) -> None:
    async def story() -> None:
        async with bench.log(CONFIG) as log:
            fill(log, Written(), bench.clock.now)
            data, size = log.segments[1].data, log.segments[1].size
            end = batch_end(log, 1)
            data.file().truncate(end)
            with pytest.raises(Uncleanable, match="ends"):
                await clean(log)
            data.file().truncate(size)

    asyncio.run(story())


def batch_end(log: Log, index: int) -> int:
    """Return where the first batch of a segment ends."""
    outline = next(log.segments[index].outlines(0))
    return outline.position + outline.size


def test_a_marker_that_alone_carries_its_producers_epoch_stays_and_fences(bench: LogBench) -> None:
    async def story() -> None:
        log = await bench.open(CONFIG)
        written, producer = Written(), Producer(7, 3, 0, True)
        end_transaction(log, written, producer, bench.clock.now, commits=False)
        for _ in range(3):
            write(log, written, [(b"a", b"1")], bench.clock.now)
            log.roll()
            await clean(log)
            bench.clock.now += 2 * DAY_MS
        assert [header.record_count for header, _ in batches(log) if header.is_control] == [1]
        await bench.crash(log)
        for name in bench.log_path.glob("*.snapshot"):
            name.unlink()
        log = await bench.open(CONFIG)
        (entry,) = log.producers.entries()
        assert (entry.producer_id, entry.producer_epoch) == (7, 3)
        assert log.producers.expire(bench.clock.now, DAY_MS) == 1
        write(log, written, [(b"a", b"1")], bench.clock.now)
        log.roll()
        await clean(log)
        assert not [header for header, _ in batches(log) if header.is_control]
        await bench.directory.wait_for_tasks()
        await log.close()

    asyncio.run(story())


def test_a_producer_whose_later_batch_is_cut_off_is_known_by_the_one_before(
    bench: LogBench,
) -> None:
    async def story() -> None:
        log = await bench.open(CONFIG)
        written, producer = Written(), Producer(7, 0, 0)
        write(log, written, [(b"a", b"1")], bench.clock.now, producer)
        write(log, written, [(b"a", b"2"), (b"b", b"x" * 400)], bench.clock.now)
        log.roll()
        await bench.directory.wait_for_tasks()
        write(log, written, [(b"b", b"not committed")], bench.clock.now, producer)
        await clean(log, 3)
        assert log.replacements == 1
        await log.truncate_to(3)
        await bench.crash(log)
        log = await bench.open(CONFIG)  # the recovery point was not written yet
        (entry,) = log.producers.entries()
        assert (entry.last_sequence, entry.last_offset) == (0, 0)
        await bench.directory.wait_for_tasks()
        await log.close()

    asyncio.run(story())


def test_a_copy_of_what_was_compacted_is_whole_after_a_crash_under_another_policy(
    bench: LogBench,
) -> None:
    """Only the log that was cleaned has a checkpoint that says so."""

    async def story() -> None:
        written, now = Written(), bench.clock.now
        async with bench.log(CONFIG) as log:
            for key in (b"b", b"c"):
                write(log, written, [(key, b"x" * 300)], now)
                write(log, written, [(b"a", b"x" * 100)], now)
                log.roll()
            write(log, written, [(b"a", b"")], now)
            log.roll()
            await clean(log)
            content = [part for _, part in batches(log)]
        await bench.directory.wait_for_tasks()
        shutil.rmtree(bench.log_path)
        copy = await bench.open(LogConfig(segment_bytes=600))
        for part in content:
            copy.append_fetched(bytearray(part))
            copy.roll()
        assert read_offsets(copy) == [(0, 0), (2, 2), (4, 4)]
        await copy.flush()
        found, point = records(copy), copy.recovery_point
        await bench.crash(copy)
        copy = await bench.open(LogConfig(segment_bytes=600), recovery_point=point)
        assert copy.recovery.damage is None
        assert records(copy) == found
        await bench.directory.wait_for_tasks()
        await copy.close()

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_no_value_is_removed_for_one_that_a_loss_of_power_would_take(seed: int) -> None:
    """After a kill the newer value is in the page cache only, though its segment is closed."""
    world = World(seed)
    node = world.node("one")
    found: list[bytes | None] = []

    async def open_log(
        environment: SimEnvironment, recovery_point: int
    ) -> tuple[LogDirectory, Log]:
        directory = LogDirectory(environment.disk, environment.clock, environment.random, "/data")
        await directory.open()
        return directory, await Log.open(directory, TP, CONFIG, recovery_point=recovery_point)

    async def first(environment: SimEnvironment) -> None:
        _, log = await open_log(environment, 0)
        written = Written()
        write(log, written, [(b"k", b"old"), (b"old filler", b"x" * 400)], 1000)
        log.roll()
        await log.flush()
        write(log, written, [(b"k", b"new"), (b"new filler", b"x" * 400)], 1000)
        log.roll()
        node.kill()
        await asyncio.sleep(3600)  # virtual time

    async def second(environment: SimEnvironment) -> None:
        _, log = await open_log(environment, 2)
        assert [r.value for r in records(log).values() if r.key == b"k"] == [b"old", b"new"]

        async def lose_power(count: int) -> bool:
            if log.replacements:
                node.lose_power()
            return True

        limits = CleanerLimits(1 << 20, 0.9, BLOCK_BYTES, lose_power)
        await CleaningPass(log, await log_dirtiness(log, log.log_end_offset), limits).run()

    async def third(environment: SimEnvironment) -> None:
        directory, log = await open_log(environment, 2)
        found.extend(r.value for r in records(log).values() if r.key == b"k")
        await directory.wait_for_tasks()
        await log.close()
        await directory.close(is_clean=True)

    async def play() -> None:
        for life in (first, second, third):
            done = asyncio.ensure_future(node.start(life).ended)
            await asyncio.wait([done], timeout=60)

    world.run(play())
    assert not world.failures, world.failures
    assert found == [b"new"]
