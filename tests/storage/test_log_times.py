"""Offsets by time."""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kavka.storage.log.log import Log
from kavka.storage.log_config import LogConfig
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.header import assign, read_header
from support.examples import examples
from support.storage_bench import LogBench

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=100, file_delete_delay_ms=0)


def append_records(log: Log, timestamps: list[int]) -> None:
    """Append one batch with a record for each timestamp."""
    builder = BatchBuilder()
    for timestamp in timestamps:
        builder.append(b"key", b"value", timestamp)
    batch = bytearray(builder.build())
    log.append(batch, [assign(batch, read_header(batch), log.log_end_offset, 3)])


@settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(
    batches=st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=6), max_size=30),
    targets=st.lists(st.integers(0, 310), min_size=1, max_size=8),
    start=st.integers(0, 40),
)
def test_the_first_record_that_is_not_earlier_is_found(
    bench: LogBench, batches: list[list[int]], targets: list[int], start: int
) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        await log.truncate_fully_and_start_at(0)
        for batch in batches:
            append_records(log, batch)
        times = [time for batch in batches for time in batch]
        start_offset = log.delete_before(min(start, len(times)), len(times))
        for target in targets:
            expected = next(
                (
                    (time, at, 3)
                    for at, time in enumerate(times)
                    if time >= target and at >= start_offset
                ),
                None,
            )
            assert await log.offset_for_timestamp(target) == expected
        newest = max(times, default=None)
        expected = None if newest is None else (newest, times.index(newest), 3)
        assert await log.latest_timestamp() == expected
        await bench.directory.wait_for_tasks()
        await bench.directory.remove_due()
        await log.close()

    asyncio.run(scenario())


def test_times_are_found_after_a_restart(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        for number in range(60):
            append_records(log, [number * 10, number * 10 + 5])
        await log.close()
        async with bench.log(SMALL, recovery_point=120, is_clean=True) as log:
            assert await log.offset_for_timestamp(333) == (335, 67, 3)
            assert await log.latest_timestamp() == (595, 119, 3)
            assert await log.offset_for_timestamp(596) is None

    asyncio.run(scenario())
