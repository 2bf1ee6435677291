"""Appends and truncations of a follower."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.storage.checkpoint.files import LOG_START_OFFSETS, RECOVERY_POINTS
from kavka.storage.failures import OffsetBelowEnd
from kavka.storage.log_config import LogConfig
from kavka.wire.records.corrupt import CorruptBatch
from support.examples import examples
from support.storage_bench import TP, LogBench, add, make_batch, read_bytes, read_offsets

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=250)
COMPACTED = LogConfig(
    segment_bytes=1000, index_interval_bytes=250, cleanup_policy=frozenset({"compact"})
)


def test_a_follower_appends_many_batches_as_they_are(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            fetched = b"".join(make_batch(n, epoch=n // 8) for n in range(25))
            appended = log.append_fetched(fetched)
            assert appended is not None
            assert (appended.base_offset, appended.last_offset) == (0, 24)
            assert b"".join(read_bytes(log, base) for base in (0, 10, 20)) == fetched
            assert [s.base_offset for s in log.segments] == [0, 10, 20]

    asyncio.run(scenario())


def test_leader_epochs_and_producers_are_learnt_from_the_batches(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            log.append_fetched(
                b"".join(
                    make_batch(
                        n, epoch=3 + n // 8, producer_id=7, producer_epoch=0, base_sequence=n
                    )
                    for n in range(20)
                )
            )
            assert log.epochs.entries == [(3, 0), (4, 8), (5, 16)]
            assert (log.latest_epoch, log.epoch_at(9)) == (5, 4)
            assert log.end_offset_for(4) == (4, 16)
            assert log.end_offset_for(5) == (5, 20)
            assert log.end_offset_for(6) == (-1, -1)
            assert log.end_offset_for(2) == (2, 0)
            assert log.producers.entries()[0].last_sequence == 19

    asyncio.run(scenario())


def test_a_cut_last_batch_waits_for_the_next_fetch(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            whole = make_batch(0) + make_batch(1)
            assert log.append_fetched(whole + make_batch(2)[:70]) is not None
            assert log.append_fetched(make_batch(2)[:99]) is None
            assert log.append_fetched(b"") is None
            assert read_offsets(log) == [(0, 0), (1, 1)]

    asyncio.run(scenario())


def test_offsets_may_leap_as_after_compaction(bench: LogBench) -> None:
    async def scenario() -> None:
        far = 3 * 2**31
        async with bench.log(COMPACTED) as log:
            log.append_fetched(
                make_batch(5, 2) + make_batch(90) + make_batch(far) + make_batch(far + 9)
            )
            assert read_offsets(log) == [(5, 6), (90, 90), (far, far), (far + 9, far + 9)]
            assert log.log_end_offset == far + 10
            assert await log.truncate_to(far + 5)
            assert log.log_end_offset == far + 1
            assert log.append_fetched(make_batch(far + 7)) is not None
        async with bench.log(COMPACTED) as log:
            assert read_offsets(log) == [(5, 6), (90, 90), (far, far), (far + 7, far + 7)]

    asyncio.run(scenario())


def test_what_the_log_holds_already_is_refused(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            log.append_fetched(make_batch(0, 5))
            with pytest.raises(OffsetBelowEnd) as refused:
                log.append_fetched(make_batch(4, 5))
            assert (refused.value.base_offset, refused.value.may_restart) == (4, False)
            assert read_offsets(log) == [(0, 4)]

    asyncio.run(scenario())


def test_an_empty_log_restarts_at_the_batch_that_holds_the_leaders_start(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            await log.truncate_fully_and_start_at(7)
            with pytest.raises(OffsetBelowEnd) as refused:
                log.append_fetched(make_batch(4, 5))
            assert refused.value.may_restart
            await log.truncate_fully_and_start_at(refused.value.base_offset)
            log.append_fetched(make_batch(4, 5))
            assert log.delete_before(7, 9) == 7
            assert (log.log_start_offset, log.log_end_offset) == (7, 9)
            assert read_bytes(log, 7) == make_batch(4, 5)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "spoilt",
    [
        make_batch(0) + make_batch(1)[:80] + b"\xff" + make_batch(1)[81:],
        make_batch(0, 3) + make_batch(2),
        make_batch(0) + make_batch(1, 0),
    ],
    ids=["checksum", "offset goes back", "no offsets"],
)
def test_nothing_of_an_unsound_fetch_is_appended(bench: LogBench, spoilt: bytes) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            with pytest.raises(CorruptBatch):
                log.append_fetched(spoilt)
            assert log.log_end_offset == 0

    asyncio.run(scenario())


def test_batches_of_a_later_leader_stay_out(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            log.append_fetched(make_batch(0, epoch=4) + make_batch(1, epoch=5), leader_epoch=4)
            assert read_offsets(log) == [(0, 0)]
            assert log.latest_epoch == 4

    asyncio.run(scenario())


def test_an_epoch_that_wrote_nothing_goes_with_a_truncation_at_the_end(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            add(log, epoch=1)
            log.assign_epoch(2, 1)
            assert not await log.truncate_to(5)
            assert log.epochs.entries == [(1, 0)]

    asyncio.run(scenario())


def test_a_restarted_log_drops_producers_of_an_earlier_stop(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        for sequence in range(15):
            add(log, producer_id=3, producer_epoch=0, base_sequence=sequence)
        await log.close()
        async with bench.log(SMALL) as log:
            assert log.producers.entries()
            await log.truncate_fully_and_start_at(100)
            assert log.producers.entries() == []
            assert not [p.name for p in bench.log_path.iterdir() if p.suffix == ".snapshot"]

    asyncio.run(scenario())


def test_a_restart_at_the_same_offset_leaves_an_empty_log(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            add(log)
            await log.truncate_fully_and_start_at(0)
            assert read_offsets(log) == []
            add(log, 4)
            assert read_offsets(log) == [(0, 3)]

    asyncio.run(scenario())


def test_checkpoints_never_promise_more_than_a_truncated_log_has(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(SMALL) as log:
            for _ in range(35):
                add(log)
            await log.flush()
            log.delete_before(22, 35)
            await bench.directory.write_offsets(RECOVERY_POINTS, {TP: 35})
            await bench.directory.write_offsets(LOG_START_OFFSETS, {TP: 22})
            await log.truncate_to(15)
            assert (log.log_start_offset, log.recovery_point) == (15, 15)
            assert await bench.directory.read_offsets(RECOVERY_POINTS) == {TP: 10}
            assert await bench.directory.read_offsets(LOG_START_OFFSETS) == {TP: 10}

    asyncio.run(scenario())


def test_retention_waits_for_a_truncation(bench: LogBench) -> None:
    async def scenario() -> None:
        async with bench.log(LogConfig(segment_bytes=1000, retention_bytes=0)) as log:
            for _ in range(35):
                add(log)
            await log.flush()
            cutting = asyncio.ensure_future(log.truncate_to(15))
            await asyncio.sleep(0)
            while not cutting.done():
                assert log.delete_old_segments(10) == 0
                await asyncio.sleep(0)
            assert log.delete_old_segments(10) == 1
            assert read_offsets(log) == [(n, n) for n in range(10, 15)]

    asyncio.run(scenario())


@settings(max_examples=examples(60), deadline=None)
@given(
    leaps=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=25),
    cuts=st.lists(st.integers(0, 90), max_size=3),
    is_killed=st.booleans(),
)
def test_any_history_of_leaps_and_cuts_leaves_what_the_list_says(
    tmp_path_factory: pytest.TempPathFactory,
    leaps: list[tuple[int, int]],
    cuts: list[int],
    is_killed: bool,
) -> None:
    bench = LogBench(tmp_path_factory.mktemp("follower"))

    def batches(offset: int, epoch: int) -> list[tuple[int, int, int]]:
        made = []
        for leap, count in leaps:
            made.append((offset + leap, count, epoch))
            offset += leap + count
        return made

    async def scenario() -> None:
        log = await bench.open(COMPACTED)
        expected: list[tuple[int, int, int]] = []
        for epoch, cut in enumerate([None, *cuts]):
            if cut is not None:
                await log.truncate_to(cut)
                while expected and expected[-1][0] + expected[-1][1] > cut:
                    expected.pop()
            new = batches(log.log_end_offset, epoch)
            log.append_fetched(b"".join(make_batch(b, n, epoch=e) for b, n, e in new))
            expected += new
        if is_killed:
            await bench.crash(log)
        else:
            await bench.directory.wait_for_tasks()
            await log.close()
        async with bench.log(COMPACTED, is_clean=not is_killed) as log:
            assert read_offsets(log) == [(base, base + n - 1) for base, n, _ in expected]
            assert all(log.epoch_at(base) == epoch for base, _, epoch in expected)

    asyncio.run(scenario())
    bench.close()
