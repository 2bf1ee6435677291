"""Compaction of one log: what stays, what goes and when, and that readers never see a difference they should not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.storage.compaction.cleanable_log import log_dirtiness
from kavka.storage.compaction.cleaning_pass import Uncleanable
from kavka.storage.log.log import Log
from kavka.storage.log_config import LogConfig
from kavka.wire.records import kernel, pure, pure_cleaner
from kavka.wire.records.batch import decode_records
from kavka.wire.records.compression import Compression
from kavka.wire.records.header import read_header
from support.compaction_bench import (
    DAY_MS,
    Producer,
    Written,
    batches,
    clean,
    dirtiness,
    end_transaction,
    records,
    survivors,
    write,
)
from support.examples import examples
from support.storage_bench import LogBench, read_bytes

SMALL = LogConfig(
    segment_bytes=600, index_interval_bytes=150, cleanup_policy=frozenset({"compact"})
)
KEYS = [b"a", b"b", b"c", b"d", b"e"]


@pytest.fixture(params=["compiled", "python"], autouse=True)
def which_kernel(request, monkeypatch):
    """Both kernels do the work of each test."""
    if request.param == "python":
        for name in ("OffsetMap", "rebase", "outline"):
            monkeypatch.setattr(kernel, name, getattr(pure_cleaner, name))
        monkeypatch.setattr(kernel, "keep", pure.keep)
    else:
        assert kernel.NAME == "compiled"
    return request.param


def run(bench: LogBench, story: Callable[[Log], Coroutine[Any, Any, None]], config=SMALL) -> None:
    async def life() -> None:
        async with bench.log(config) as log:
            await story(log)

    asyncio.run(life())


def test_only_the_last_value_of_each_key_stays_at_its_offset(bench: LogBench) -> None:
    async def story(log: Log) -> None:
        written = Written()
        for index in range(60):
            write(log, written, [(KEYS[index % 5], b"value %d" % index)], bench.clock.now)
        log.roll()
        report = await clean(log)
        assert report.end_offset == log.segments[-1].base_offset == 60
        assert records(log) == survivors(written.records, 60)
        assert list(records(log)) == [55, 56, 57, 58, 59]
        write(log, written, [(b"f", b"more")], bench.clock.now)
        log.roll()
        await clean(log)
        assert [segment.base_offset for segment in log.segments] == [0, 61]
        assert list(records(log)) == [55, 56, 57, 58, 59, 60]

    run(bench, story)


def test_a_read_at_a_removed_offset_gives_the_next_record_that_exists(bench: LogBench) -> None:
    async def story(log: Log) -> None:
        written = Written()
        for index in range(60):
            write(log, written, [(KEYS[index % 5], b"value %d" % index)], bench.clock.now)
        log.roll()
        await clean(log)
        for offset in range(56):
            data = read_bytes(log, offset, 1)
            assert read_header(data).base_offset == 55
        assert read_header(read_bytes(log, 57, 1)).base_offset == 57

    run(bench, story)


def test_the_active_segment_and_what_is_not_stable_are_left_alone(bench: LogBench) -> None:
    async def story(log: Log) -> None:
        written = Written()
        for index in range(60):
            write(log, written, [(b"a", b"value %d" % index)], bench.clock.now)
        active = log.segments[-1].base_offset
        middle = log.segments[3].base_offset + 1
        report = await clean(log, last_stable_offset=middle)
        assert report.end_offset == middle - 1
        assert records(log) == survivors(written.records, middle - 1)
        report = await clean(log)
        assert report.end_offset == active
        assert records(log) == survivors(written.records, active)

    run(bench, story)


@pytest.mark.parametrize("codec", list(Compression))
def test_a_batch_of_each_codec_loses_records_and_keeps_its_offsets(bench, codec):
    async def story(log: Log) -> None:
        written = Written()
        rows = [(b"a", b"old"), (b"b", b"stays"), (b"c", b"with header"), (b"a", b"new")]
        write(log, written, rows, bench.clock.now, Producer(7, 0, 40), codec)
        log.roll()
        await clean(log)
        assert records(log) == survivors(written.records, 4)
        ((header, content),) = batches(log)
        assert (header.base_offset, header.last_offset, header.record_count) == (0, 3, 3)
        assert (header.base_sequence, header.last_sequence) == (40, 43)
        assert header.compression is codec
        assert header.crc == read_header(content).crc

    run(bench, story)


def test_a_tombstone_gets_a_horizon_and_goes_after_it(bench: LogBench) -> None:
    async def story(log: Log) -> None:
        written = Written()
        write(log, written, [(b"a", b"1"), (b"b", b"2"), (b"a", None)], bench.clock.now)
        log.roll()
        await clean(log)
        (header,) = (header for header, _ in batches(log))
        assert header.has_delete_horizon
        assert header.base_timestamp == bench.clock.now + DAY_MS
        assert header.max_timestamp == bench.clock.now
        assert records(log) == {1: written.records[1], 2: written.records[2]}
        for days, left in ((0.5, [1, 2, 3]), (0.6, [1, 4])):
            bench.clock.now += int(days * DAY_MS)
            write(log, written, [(b"z", b"dirty")], bench.clock.now)
            log.roll()
            await clean(log)
            assert list(records(log)) == left
        assert records(log)[1] == written.records[1]

    run(bench, story)


def test_the_last_batch_of_a_producer_stays_empty_while_it_carries_its_sequence(
    bench: LogBench,
) -> None:
    async def story(log: Log) -> None:
        written, producer = Written(), Producer(7, 2, 10)
        write(log, written, [(b"a", b"1")], bench.clock.now, producer)
        write(log, written, [(b"a", b"2"), (b"b", b"3")], bench.clock.now, producer)
        write(log, written, [(b"a", b"4"), (b"b", b"5")], bench.clock.now)
        log.roll()
        await clean(log)
        first, second = (header for header, _ in batches(log))
        assert (first.base_offset, first.last_offset, first.record_count) == (1, 2, 0)
        assert (first.base_sequence, first.last_sequence, first.producer_epoch) == (11, 12, 2)
        assert second.record_count == 2
        assert log.producers.expire(bench.clock.now + 10, 5) == 1
        write(log, written, [(b"c", b"6")], bench.clock.now)
        log.roll()
        await clean(log)
        assert [header.record_count for header, _ in batches(log)] == [2, 1]

    run(bench, story)


def test_the_time_of_an_empty_batch_leads_nowhere(bench: LogBench) -> None:
    async def story(log: Log) -> None:
        written, now = Written(), bench.clock.now
        write(log, written, [(b"a", b"1")], now + 50, Producer(7, 0, 0))
        write(log, written, [(b"b", b"2")], now + 10)
        write(log, written, [(b"a", b"3")], now + 20)
        log.roll()
        await clean(log)
        assert [header.record_count for header, _ in batches(log)] == [0, 1, 1]
        latest = await log.latest_timestamp()
        assert latest is not None
        assert (latest.timestamp, latest.offset) == (now + 20, 2)
        assert await log.offset_for_timestamp(now + 30) is None
        found = await log.offset_for_timestamp(now + 5)
        assert found is not None
        assert found.offset == 1

    run(bench, story)


def test_aborted_data_goes_and_its_marker_when_nothing_is_left_and_time_has_passed(
    bench: LogBench,
) -> None:
    async def story(log: Log) -> None:
        written, producer = Written(), Producer(7, 0, 0, True)
        write(log, written, [(b"a", b"kept")], bench.clock.now)
        write(log, written, [(b"a", b"aborted"), (b"b", b"aborted")], bench.clock.now, producer)
        end_transaction(log, written, producer, bench.clock.now, commits=False)
        write(log, written, [(b"c", b"aborted")], bench.clock.now, producer)
        end_transaction(log, written, producer, bench.clock.now, commits=False)

        async def again(days: float) -> tuple[list[int], int]:
            bench.clock.now += int(days * DAY_MS)
            write(log, written, [(b"z", b"dirty")], bench.clock.now)
            log.roll()
            await clean(log)
            kept = [header.base_offset for header, _ in batches(log) if header.base_offset < 6]
            assert records(log, committed=True)[0].value == b"kept"
            return kept, len(log.aborted_transactions(0, log.log_end_offset))

        # The batch at 4 is the producer's last: it stays, empty, and so do its marker and the entry of the index.
        assert await again(0) == ([0, 3, 4, 5], 2)
        assert await again(0) == ([0, 3, 4, 5], 1)
        assert [h.has_delete_horizon for h, _ in batches(log)][:4] == [False, True, False, False]
        assert await again(0.9) == ([0, 3, 4, 5], 1)
        assert await again(0.2) == ([0, 4, 5], 1)
        assert log.producers.expire(bench.clock.now, DAY_MS) == 1
        assert await again(0) == ([0, 5], 1)
        assert await again(0) == ([0, 5], 0)
        assert await again(1.1) == ([0], 0)

    run(bench, story)


async def epochs_of_a_copy(log: Log, path: Path) -> list[tuple[int, int]]:
    """Return the leader epochs that a follower learns from the batches of a cleaned log."""
    copy = LogBench(path)
    try:
        async with copy.log(SMALL) as follower:
            for header, batch in batches(log):
                follower.append_fetched(batch, header.partition_leader_epoch)
            assert follower.log_end_offset == log.log_end_offset
            assert not follower.producers.entries()
            return [(epoch, start) for epoch, start in follower.epochs.entries]
    finally:
        copy.close()


def test_the_first_batch_of_a_leader_epoch_stays_empty_so_that_copies_know_where_it_began(
    bench: LogBench, tmp_path: Path
) -> None:
    async def story(log: Log) -> None:
        written = Written()
        for epoch in (0, 0, 0, 1, 1, 3, 3, 3):
            write(log, written, [(b"a", b"value")], bench.clock.now, leader_epoch=epoch)
        for day in range(2):
            write(log, written, [(b"z", b"dirty")], bench.clock.now, leader_epoch=4)
            log.roll()
            await clean(log)
            assert records(log) == survivors(written.records, 9 + day)
        assert [header.base_offset for header, _ in batches(log)] == [3, 5, 7, 8, 9]
        began = [(0, 0), (1, 3), (3, 5), (4, 8)]
        assert [tuple(entry) for entry in log.epochs.entries] == began
        assert await epochs_of_a_copy(log, tmp_path) == began[1:]

    run(bench, story)


def test_what_is_left_of_a_transaction_at_the_beginning_of_an_epoch_says_nothing_of_its_producer(
    bench: LogBench, tmp_path: Path
) -> None:
    async def story(log: Log) -> None:
        written, producer = Written(), Producer(7, 0, 0, True)
        write(log, written, [(b"a", b"kept")], bench.clock.now)
        write(log, written, [(b"b", b"aborted")], bench.clock.now, producer, leader_epoch=1)
        for epoch in (1, 2):  # the second ends nothing
            end_transaction(
                log, written, producer, bench.clock.now, commits=False, leader_epoch=epoch
            )
        bench.clock.now += 2 * DAY_MS
        assert log.producers.expire(bench.clock.now, DAY_MS) == 1
        for _ in range(5):
            write(log, written, [(b"z", b"dirty")], bench.clock.now, leader_epoch=2)
            log.roll()
            await clean(log)
            bench.clock.now += 2 * DAY_MS
        kept = {header.base_offset: header for header, _ in batches(log)}
        assert kept.keys() >= {0, 1, 3}
        assert 2 not in kept
        for offset in (1, 3):
            empty = kept[offset]
            assert (empty.record_count, empty.producer_id, empty.base_sequence) == (0, -1, -1)
            assert not empty.is_transactional
            assert not empty.is_control
        assert await epochs_of_a_copy(log, tmp_path) == [(0, 0), (1, 1), (2, 3)]

    run(bench, story)


def test_a_batch_that_fails_its_checksum_is_not_made_right(bench: LogBench) -> None:
    async def story(log: Log) -> None:
        written = Written()
        for index in range(30):
            write(log, written, [(b"a", b"value %d" % index)], bench.clock.now)
        log.roll()
        data = log.segments[1].data
        data.file().write_at(b"\xff", 75)
        with pytest.raises(Uncleanable, match="checksum"):
            await clean(log)
        assert not log.is_being_cleaned
        assert len(log.segments) > 3
        assert not [name for name in bench.disk.list(log.path) if "cleaned" in name]

    run(bench, story)


@pytest.mark.slow
def test_a_map_that_is_too_small_cleans_in_several_passes(bench: LogBench) -> None:
    async def story(log: Log) -> None:
        written = Written()
        for index in range(200):
            write(log, written, [(b"key %d" % (index % 50), b"%d" % index)], bench.clock.now)
        log.roll()
        ends: list[Any] = []
        while not ends or ends[-1] < 200:
            ends.append((await clean(log, map_bytes=24 * 20)).end_offset)
        assert len(ends) > 3
        assert ends == sorted(set(ends))
        assert records(log) == survivors(written.records, 200)

    run(bench, story)


def test_a_batch_with_more_keys_than_the_map_takes_is_said(bench: LogBench) -> None:
    async def story(log: Log) -> None:
        rows = [(b"key %d" % index, b"") for index in range(40)]
        write(log, Written(), rows, bench.clock.now)
        log.roll()
        with pytest.raises(Uncleanable, match=r"log\.cleaner\.dedupe\.buffer\.size"):
            await clean(log, map_bytes=24 * 20)

    run(bench, story)


def test_what_is_cut_off_is_not_clean_any_more(bench: LogBench) -> None:
    async def story(log: Log) -> None:
        written = Written()
        for index in range(60):
            write(log, written, [(b"a", b"value %d" % index)], bench.clock.now)
        log.roll()
        await clean(log)
        assert log.cleaner_offset == 60
        await log.truncate_to(40)
        assert log.cleaner_offset == log.log_end_offset == 35
        assert (await dirtiness(log)).first_dirty_offset == 35

    run(bench, story)


steps = st.one_of(
    st.tuples(
        st.just("write"),
        st.integers(-1, 3),
        st.lists(
            st.tuples(
                st.sampled_from([*KEYS, None]),
                st.sampled_from([None, b"x", b"with header", b"y" * 90]),
            ),
            min_size=1,
            max_size=5,
        ),
        st.sampled_from(list(Compression)),
    ),
    st.tuples(st.just("end"), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("roll")),
    st.tuples(
        st.just("clean"),
        st.sampled_from([0, 0, DAY_MS // 2, 2 * DAY_MS]),
        st.sampled_from([20, 4000]),
    ),
    st.tuples(st.just("reopen")),
)


class _Story:
    """A log under random steps, held against what was written."""

    def __init__(self, bench: LogBench) -> None:
        self.bench = bench
        self.written = Written()
        self.producers = {-1: Producer(), 0: Producer(100)} | {
            number: Producer(number, 0, 0, True) for number in (1, 2, 3)
        }
        self.clean_below = 0
        self.gone: set[int] = set()

    async def play(self, plan) -> None:
        log = await self.bench.open(SMALL)
        for step in plan:
            log = await self._step(log, step)
            self._check(log)
        await self.bench.directory.wait_for_tasks()
        await log.close()

    async def _step(self, log: Log, step) -> Log:
        bench, written = self.bench, self.written
        bench.clock.now += 1
        match step:
            case ("write", number, rows, codec):
                write(log, written, rows, bench.clock.now, self.producers[number], codec)
            case ("end", number, commits):
                end_transaction(
                    log, written, self.producers[number], bench.clock.now, commits=commits
                )
            case ("roll",):
                log.roll()
            case ("clean", ms, slots):
                bench.clock.now += ms
                await self._clean(log, slots)
            case ("reopen",):
                await log.close()
                cleaner_offset = log.cleaner_offset
                before = {entry.producer_id: entry for entry in log.producers.entries()}
                for name in bench.disk.list(log.path):
                    if name.endswith(".snapshot"):
                        bench.disk.remove(f"{log.path}/{name}")
                log = await bench.open(SMALL, cleaner_offset=cleaner_offset)
                for entry in log.producers.entries():
                    known = before[entry.producer_id]
                    assert (entry.producer_epoch, entry.last_sequence) == (
                        known.producer_epoch,
                        known.last_sequence,
                    )
                    assert entry.current_txn_first_offset == known.current_txn_first_offset or (
                        known.current_txn_first_offset < self.clean_below
                    )
        return log

    async def _clean(self, log: Log, slots: int) -> None:
        stable = self.written.last_stable_offset(log.log_end_offset)
        found = await log_dirtiness(log, stable)
        if found.cleanable_bytes == 0:
            return
        before = records(log, committed=True)
        report = await clean(log, stable, map_bytes=24 * slots)
        assert report.end_offset <= stable
        self.clean_below = max(self.clean_below, report.end_offset)
        after = records(log, committed=True)
        expected = survivors(before, report.end_offset)
        tombstones = {o for o, record in expected.items() if record.value is None}
        assert set(expected) - tombstones <= set(after) <= set(expected)

    def _check(self, log: Log) -> None:
        """Check that records are as written, the last value of each key is there, and aborted ones are not seen."""
        committed = self.written.committed()
        seen = records(log, committed=True)
        still_open = {
            offset
            for offset, number in self.written.owner.items()
            if number not in self.written.outcomes
        }
        for offset, record in seen.items():
            if offset not in still_open:
                assert record == committed[offset]
        last = survivors(committed, log.log_end_offset)
        for offset, record in last.items():
            if record.value is not None:
                assert seen[offset] == record
        aborted = set(self.written.records) - set(committed) - still_open
        assert not aborted & set(seen)
        for header, content in batches(log):
            assert read_header(content).size == len(content)
            decode_records(content, read_header(content))
            assert header.last_offset < log.log_end_offset


@settings(max_examples=examples(60))
@given(plan=st.lists(steps, min_size=5, max_size=60))
def test_readers_see_the_last_value_of_each_key_whatever_happens(tmp_path_factory, plan):
    bench = LogBench(tmp_path_factory.mktemp("log"))
    try:
        asyncio.run(_Story(bench).play(plan))
    finally:
        bench.close()
