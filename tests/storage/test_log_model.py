"""A log under random work, kills and clean restarts, against a list of batches."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from kavka.storage.log.log import Log
from kavka.storage.log_config import LogConfig
from kavka.wire.records.header import walk
from support.examples import examples
from support.storage_bench import LogBench, make_batch, read_bytes


class LogMachine(RuleBasedStateMachine):
    """The list knows (base offset, bytes) of every batch that must be there."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="kavka-log-"))
        self.loop = asyncio.new_event_loop()
        self.bench = LogBench(self.path)
        self.batches: list[tuple[int, bytes]] = []
        self.start = 0
        self.end = 0
        self.sequence = 0
        self.recovery_point = 0
        self.log: Log

    @initialize(
        segment_bytes=st.sampled_from([300, 1000, 5000]),
        interval=st.sampled_from([0, 200, 1500]),
        index_bytes=st.sampled_from([60, 240, 10 << 20]),
    )
    def open(self, segment_bytes: int, interval: int, index_bytes: int) -> None:
        self.config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            segment_index_bytes=index_bytes,
            retention_ms=-1,
            file_delete_delay_ms=0,
        )
        self.log = self.wait(self.bench.open(self.config))  # type: ignore[assignment]

    def wait(self, work: object) -> object:
        return self.loop.run_until_complete(work)  # type: ignore[arg-type]

    # -- work

    @rule(
        counts=st.lists(st.integers(1, 9), min_size=1, max_size=4),
        size=st.integers(61, 400),
        time=st.integers(0, 10**6),
        epoch_step=st.sampled_from([0, 0, 0, 1]),
        produces=st.booleans(),
    )
    def append(
        self, counts: list[int], size: int, time: int, epoch_step: int, produces: bool
    ) -> None:
        epoch = max(self.log.epochs.latest_epoch, 0) + epoch_step
        parts = []
        offset = self.end
        for count in counts:
            ids = (
                {"producer_id": 9, "producer_epoch": 0, "base_sequence": self.sequence}
                if produces
                else {}
            )
            self.sequence += count if produces else 0
            parts.append(
                (offset, make_batch(offset, count, size=size, timestamp=time, epoch=epoch, **ids))  # type: ignore[arg-type]
            )
            offset += count
        buffer = b"".join(batch for _, batch in parts)

        async def work() -> None:
            self.log.append(buffer, walk(buffer))

        self.wait(work())
        self.batches += parts
        self.end = offset

    @rule()
    def flush(self) -> None:
        self.wait(self.log.flush())
        assert self.log.recovery_point == self.end

    @rule()
    def checkpoint(self) -> None:
        self.recovery_point = self.log.recovery_point

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.wait(self.log.truncate_to(offset))
        while self.batches and self.batches[-1][0] + self.count(-1) > offset:
            self.batches.pop()
        self.end = self.batches[-1][0] + self.count(-1) if self.batches else self.log.log_end_offset
        self.start = min(self.start, self.end)
        self.recovery_point = min(self.recovery_point, self.end)
        assert self.log.log_end_offset == self.end
        self.note_sequence()

    @rule(data=st.data())
    def delete_before(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))

        async def work() -> None:
            self.log.delete_before(offset, self.end)
            self.log.delete_old_segments(self.end)

        self.wait(work())
        self.start = offset
        self.batches = [b for i, b in enumerate(self.batches) if b[0] + self.count(i) > offset]

    @rule()
    def remove_deleted(self) -> None:
        self.wait(self.bench.directory.remove_due())

    @rule()
    def kill(self) -> None:
        self.wait(self.bench.crash(self.log))
        self.reopen(is_clean=False)
        assert self.log.recovery.cut_bytes == 0
        assert self.log.recovery.rebuilt_segments == []

    @rule(lost=st.integers(1, 2000))
    @precondition(lambda self: self.end > self.recovery_point)
    def kill_and_tear(self, lost: int) -> None:
        """Lose the end of the last file, as far as it was not checkpointed as flushed."""
        segment = self.log.segments[-1]
        self.wait(self.bench.crash(self.log))
        path = Path(segment.data.path)
        size = path.stat().st_size
        kept_from = [
            at for base, at in self.positions(segment.base_offset) if base >= self.recovery_point
        ]
        floor = min(kept_from, default=size)
        with path.open("r+b") as file:
            file.truncate(max(size - lost, floor))
        self.reopen(is_clean=False)
        self.end = self.log.log_end_offset
        kept = [b for i, b in enumerate(self.batches) if b[0] + self.count(i) <= self.end]
        if kept and kept[-1][0] + walk(kept[-1][1])[0].record_count < self.end:
            kept = []
        # A log that ended before its start begins again there.
        assert kept or self.end == max(self.start, self.log.segments[0].base_offset)
        self.batches = [b for b in kept if b[0] + walk(b[1])[0].record_count > self.start]
        self.start = min(self.start, self.end)
        self.note_sequence()

    @rule()
    def restart(self) -> None:
        self.wait(self.log.close())
        self.wait(self.bench.directory.wait_for_tasks())
        self.bench.directory = self.bench.new_directory()
        self.recovery_point = self.end
        self.reopen(is_clean=True)
        assert self.log.recovery.checked_segments == []

    def reopen(self, *, is_clean: bool) -> None:
        self.log = self.wait(  # type: ignore[assignment]
            self.bench.open(
                self.config,
                recovery_point=self.recovery_point,
                log_start_offset=self.start,
                is_clean=is_clean,
            )
        )

    # -- the model

    def count(self, index: int) -> int:
        return walk(self.batches[index][1])[0].record_count

    def positions(self, base_offset: int) -> list[tuple[int, int]]:
        content = (self.bench.log_path / f"{base_offset:020d}.log").read_bytes()
        return [(header.base_offset, header.position) for header in walk(content)]

    def note_sequence(self) -> None:
        entries = self.log.producers.entries()
        self.sequence = entries[0].last_sequence + 1 if entries else 0

    # -- what always holds

    @invariant()
    def offsets_agree(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert log.log_start_offset <= log.written_offset == log.log_end_offset
        assert log.recovery_point <= log.log_end_offset

    @invariant()
    def every_batch_is_found_by_each_of_its_ends(self) -> None:
        for index, (base_offset, batch) in enumerate(self.batches):
            for offset in {base_offset, base_offset + self.count(index) - 1}:
                if offset >= self.start:
                    assert read_bytes(self.log, offset, 1) == batch

    @invariant()
    def reads_stop_at_the_end_that_is_asked_for(self) -> None:
        ends = [
            base for base, _ in self.batches[:: max(len(self.batches) // 3, 1)] if base > self.start
        ]
        for end in ends:
            offset = self.start
            while found := read_bytes(self.log, offset, 1 << 30, end_offset=end):
                offset = walk(found)[-1].last_offset + 1
            assert offset in (end, self.start)

    @invariant()
    def producers_know_the_last_sequence(self) -> None:
        wanted = [walk(b)[0] for _, b in self.batches]
        produced = [header for header in wanted if header.producer_id == 9]
        if produced:
            assert self.log.producers.entries()[0].last_sequence == produced[-1].last_sequence

    def teardown(self) -> None:
        try:
            if hasattr(self, "log"):
                self.wait(self.bench.directory.wait_for_tasks())
                self.wait(self.log.close())
        finally:
            self.bench.close()
            self.loop.close()
            shutil.rmtree(self.path)


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=examples(40), stateful_step_count=20, deadline=None)
