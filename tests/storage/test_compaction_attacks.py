"""Passes over a log to which anything may happen between two blocks: appends, markers, cuts, deletions, time."""

from __future__ import annotations

import asyncio
import random

import pytest

from kavka.storage.compaction.cleanable_log import log_dirtiness
from kavka.storage.compaction.cleaning_pass import CleanerLimits, CleaningPass, PassEnded
from kavka.storage.log.log import Log
from kavka.storage.log_config import LogConfig
from kavka.wire.records.compression import Compression
from support.compaction_bench import (
    DAY_MS,
    Producer,
    Written,
    end_transaction,
    records,
    survivors,
    write,
)
from support.storage_bench import LogBench

CONFIG = LogConfig(
    segment_bytes=700,
    index_interval_bytes=150,
    cleanup_policy=frozenset({"compact"}),
    file_delete_delay_ms=0,
)
KEYS = [b"a", b"b", b"c", b"d", b"e", b"f"]
STEPS = 250
EVENTS = ["write"] * 8 + ["end", "commit"] * 5 + ["roll"] * 3 + ["cut", "delete", "time", "flush"]


class Attack:
    """A log under a random mix of events, and what was written to it. The high watermark is the test's."""

    def __init__(self, seed: int, bench: LogBench, log: Log) -> None:
        self.rng = random.Random(seed)
        self.bench = bench
        self.log = log
        self.written = Written()
        self.producers = [Producer(), Producer(100)] + [Producer(n, 0, 0, True) for n in (1, 2, 3)]
        self.high_watermark = 0
        self.last_marker = -1
        self.passes = self.ended = self.cuts = 0

    async def play(self) -> None:
        for _ in range(STEPS):
            if self.rng.random() < 0.2:
                await self._clean()
            else:
                await self._happen()

    async def _clean(self) -> None:
        rng = self.rng
        stable = min(self.high_watermark, self.written.last_stable_offset(self.high_watermark))
        found = await log_dirtiness(self.log, stable)
        if not found.cleanable_bytes:
            return

        async def spend(count: int) -> bool:
            if rng.random() < 0.15:
                await self._happen()
            return rng.random() > 0.01

        slots, block_bytes = rng.choice([20, 4000]), rng.choice([200, 700, 5000])
        self.passes += 1
        try:
            limits = CleanerLimits(24 * slots, 0.9, block_bytes, spend)
            report = await CleaningPass(self.log, found, limits).run()
        except PassEnded:
            self.ended += 1
        else:
            assert report.end_offset <= stable
            self.log.cleaner_offset = report.end_offset
        names = self.bench.disk.list(self.log.path)
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
        self._check()

    async def _happen(self) -> None:
        rng, bench, log = self.rng, self.bench, self.log
        bench.clock.now += 1
        match rng.choice(EVENTS):
            case "write":
                rows = [
                    (rng.choice(KEYS), rng.choice([None, b"x", b"y" * 90]))
                    for _ in range(rng.randint(1, 4))
                ]
                codec = rng.choice([Compression.NONE, *Compression])
                producer = rng.choice(self.producers)
                write(log, self.written, rows, bench.clock.now, producer, codec)
            case "end":
                producer = rng.choice(self.producers[2:])
                commits = rng.random() < 0.5
                end_transaction(log, self.written, producer, bench.clock.now, commits=commits)
                self.last_marker = log.log_end_offset - 1
            case "roll":
                log.roll()
            case "commit":
                self.high_watermark = log.log_end_offset
                log.producers.high_watermark_advanced(self.high_watermark)
            case "cut":
                await self._cut()
            case "delete":
                stable = self.written.last_stable_offset(self.high_watermark)
                if stable > log.log_start_offset:
                    log.delete_before(
                        rng.randint(log.log_start_offset, stable), self.high_watermark
                    )
                    log.delete_old_segments(self.high_watermark)
            case "time":
                bench.clock.now += rng.choice([DAY_MS // 2, 2 * DAY_MS])
            case "flush":
                await log.flush()
        self._check()

    async def _cut(self) -> None:
        """Cut what is not committed, where no transaction is touched."""
        log, written = self.log, self.written
        above = [offset for offset in written.records if offset >= self.high_watermark]
        is_decided = self.last_marker < self.high_watermark and not written.open_of
        if not above or not is_decided or any(offset in written.owner for offset in above):
            return
        await log.truncate_to(self.rng.choice(above))
        self.cuts += 1
        end = log.log_end_offset
        written.records = {o: record for o, record in written.records.items() if o < end}

    def _check(self) -> None:
        """Each key's last value is there, none comes back, and nothing is there that was not committed."""
        log, written = self.log, self.written
        start = log.log_start_offset
        committed = {o: record for o, record in written.committed().items() if o >= start}
        undecided = {o for o, number in written.owner.items() if number not in written.outcomes}
        seen = {o: r for o, r in records(log, committed=True).items() if o not in undecided}
        seen = {offset: record for offset, record in seen.items() if offset >= start}
        assert seen.items() <= committed.items()
        last = survivors(committed, log.log_end_offset)
        assert {o for o, record in last.items() if record.value is not None} <= set(seen)
        for key in {record.key for record in seen.values()}:
            newest = max(offset for offset, record in seen.items() if record.key == key)
            assert newest in last, (key, newest)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_during_a_pass_the_last_value_of_each_key_stays(
    bench: LogBench, seed: int
) -> None:
    async def life() -> None:
        async with bench.log(CONFIG) as log:
            attack = Attack(seed, bench, log)
            await attack.play()
            assert attack.passes > 2

    asyncio.run(life())
