"""Appending, rolling and reading."""

from __future__ import annotations

import asyncio

import pytest

from kavka.storage.failures import OffsetOutOfRange
from kavka.storage.log_config import LogConfig
from kavka.wire.records.header import walk
from support.storage_bench import LogBench, add, make_batch, read_bytes, read_offsets


def test_appended_batches_are_read_back_byte_for_byte(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log() as log:
            batches = [make_batch(0, 3), make_batch(3, 2), make_batch(5, 1)]
            for batch in batches:
                appended = log.append(batch, walk(batch), 0)
                assert appended.written is None
            assert log.log_end_offset == 6
            assert read_bytes(log, 0) == b"".join(batches)
            assert read_bytes(log, 4) == b"".join(batches[1:])

    asyncio.run(scenario())


def test_a_segment_rolls_when_the_next_batch_does_not_fit(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(LogConfig(segment_bytes=250)) as log:
            for _ in range(5):
                add(log, size=100)
            assert [s.base_offset for s in log.segments] == [0, 2, 4]
            assert read_offsets(log) == [(n, n) for n in range(5)]

    asyncio.run(scenario())


def test_a_segment_rolls_by_record_time(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(LogConfig(segment_ms=1000)) as log:
            add(log, timestamp=5000)
            add(log, timestamp=6000)
            add(log, timestamp=6001)
            assert [s.base_offset for s in log.segments] == [0, 2]

    asyncio.run(scenario())


def test_a_segment_without_timestamps_rolls_by_the_clock(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(LogConfig(segment_ms=1000)) as log:
            add(log, timestamp=-1)
            bench.clock.now += 1001
            add(log, timestamp=-1)
            assert [s.base_offset for s in log.segments] == [0, 1]

    asyncio.run(scenario())


def test_a_segment_rolls_when_its_index_is_full(bench: LogBench) -> None:
    async def scenario() -> None:
        config = LogConfig(index_interval_bytes=0, segment_index_bytes=24)
        async with bench.log(config) as log:
            for n in range(5):
                add(log, timestamp=n)
            # The first batch has no entry; one slot of the time index stays free for the roll.
            assert log.segments[1].base_offset == 2

    asyncio.run(scenario())


def test_a_segment_rolls_when_the_relative_offset_leaves_32_bits(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log() as log:
            add(log)
            for offset in (2**31 - 1, 2**31):
                batch = make_batch(offset)
                log.append(batch, walk(batch))
            assert [s.base_offset for s in log.segments] == [0, 2**31]
            assert read_offsets(log) == [(0, 0), (2**31 - 1,) * 2, (2**31,) * 2]

    asyncio.run(scenario())


def test_a_read_is_bounded_by_bytes_and_may_cut_a_batch(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log() as log:
            for _ in range(3):
                add(log, size=100)
            assert len(read_bytes(log, 0, 150)) == 150
            assert len(read_bytes(log, 0, 10)) == 100
            assert len(read_bytes(log, 0, 10, minimum_one=False)) == 10
            assert read_bytes(log, 0, 99, minimum_one=False, may_cut_first=False) == b""
            assert len(read_bytes(log, 0, 150, minimum_one=False, may_cut_first=False)) == 150

    asyncio.run(scenario())


def test_a_read_ends_before_the_batch_that_holds_the_end_offset(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log() as log:
            for _ in range(4):
                add(log, 10, size=100)
            assert len(read_bytes(log, 0, end_offset=20)) == 200
            assert len(read_bytes(log, 0, end_offset=25)) == 200
            assert read_bytes(log, 20, end_offset=20) == b""
            assert read_bytes(log, 22, end_offset=25) == b""

    asyncio.run(scenario())


def test_a_read_outside_the_log_is_refused(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log() as log:
            add(log, 5)
            assert log.read(5, 100, 5).range is None
            with pytest.raises(OffsetOutOfRange):
                log.read(6, 100, 6)
            log.delete_before(3, 5)
            with pytest.raises(OffsetOutOfRange):
                log.read(2, 100, 5)

    asyncio.run(scenario())


def test_old_batches_are_found_through_the_index(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(LogConfig(index_interval_bytes=500, segment_bytes=60_000)) as log:
            for _ in range(2000):
                add(log, 2, size=100)
            for offset in (0, 1, 599, 1000, 1777, 3000, 3999):
                first = walk(read_bytes(log, offset, 1))[0]
                assert first.base_offset == offset - offset % 2

    asyncio.run(scenario())


def test_a_range_survives_the_removal_of_its_segment(bench: LogBench) -> None:
    async def scenario() -> None:
        config = LogConfig(segment_bytes=250, retention_bytes=0, file_delete_delay_ms=0)
        async with bench.log(config) as log:
            for _ in range(5):
                add(log, size=100)
            found = log.read(0, 100, 5).range
            assert found is not None
            assert log.delete_old_segments(5) == 3
            await bench.directory.remove_due()
            assert not (bench.log_path / "00000000000000000000.log.deleted").exists()
            assert walk(found.file.read_at(found.length, found.position))[0].base_offset == 0
            found.release()
            assert found.file.fileno() == -1

    asyncio.run(scenario())


def test_what_waits_for_a_flush_is_pending_until_then(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(LogConfig(flush_messages=1)) as log:
            add(log)
            pending = log.pending(1)
            assert pending is not None
            await pending
            assert log.pending(1) is None

    asyncio.run(scenario())


def test_flush_waits_for_what_is_queued_and_not_for_what_is_appended_meanwhile(
    bench: LogBench,
) -> None:
    async def scenario() -> None:
        async with bench.log(LogConfig(segment_bytes=150)) as log:
            first, second = asyncio.Event(), asyncio.Event()
            writes = bench.directory.writes
            writes.submit(first.wait)  # type: ignore[arg-type]
            add(log)
            flushed = log._flusher.schedule()
            while log._flusher.is_waiting:  # noqa: ASYNC110 - there is no event for one that begins
                await asyncio.sleep(0)
            writes.submit(second.wait)  # type: ignore[arg-type]
            add(log)
            also_flushed = log._flusher.schedule()
            first.set()
            await flushed
            assert (log.recovery_point, log.written_offset) == (1, 1)
            assert not also_flushed.done()
            second.set()
            await also_flushed
            assert (log.recovery_point, log.written_offset, len(log.segments)) == (2, 2, 2)

    asyncio.run(scenario())
