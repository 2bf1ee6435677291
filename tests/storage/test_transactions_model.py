"""Transactional producers on one partition, against a model that knows the outcome of each.

The model keeps the log as a list and works everything out again; the partition must have the same last stable offset,
and readers with read_committed must see, from every place, what is committed before it and nothing else. Replicas lag,
logs are cut at both ends, closed cleanly and not.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kavka.broker.partitions.replica import UNVERIFIED, Replica
from kavka.broker.partitions.traffic import TopicTraffic
from kavka.core.partition import Partition, PartitionState
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, LeaderEpoch
from kavka.storage.log.log import Log
from kavka.storage.log_config import LogConfig
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.control import ControlType, EndMarker
from kavka.wire.records.header import walk_complete
from support.examples import examples
from support.storage_bench import TP, LogBench

HERE, OTHER = BrokerId(1), BrokerId(2)
PLAIN = -1
PRODUCERS = st.integers(1, 3)


class Entry(NamedTuple):
    """A batch, or a marker (`ends` is not None) of one offset."""

    offset: int
    records: int
    producer_id: int
    ends: bool | None = None

    @property
    def end(self) -> int:
        return self.offset + self.records


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="kavka-transactions-"))
        self.loop = asyncio.new_event_loop()
        self.bench = LogBench(self.path)
        self.entries: list[Entry] = []
        self.start = 0
        self.high_watermark = 0
        self.known_from = 0  # whether older markers are replicated may be forgotten
        self.epoch = -1
        self.replica: Replica

    @initialize(
        segment_bytes=st.sampled_from([200, 500, 100_000]), interval=st.sampled_from([0, 150, 4096])
    )
    def open(self, segment_bytes: int, interval: int) -> None:
        self.config = LogConfig(
            segment_bytes=segment_bytes, index_interval_bytes=interval, retention_ms=-1
        )
        self.host(self.wait(self.bench.open(self.config)))

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def now(self, work: Any) -> Any:
        """Call something that needs the loop to run, and let all that it has begun come to its end."""

        async def call() -> Any:
            result = work()
            await self.bench.directory.writes.drained()
            await self.bench.directory.wait_for_tasks()
            return result

        return self.wait(call())

    def host(self, log: Log) -> None:
        """Host the log and lead."""
        partition = Partition(
            TP,
            HERE,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=self.high_watermark,
        )
        self.replica = Replica(partition, log, self.bench.clock, lambda _: None, TopicTraffic())
        self.elect(HERE)

    def elect(self, leader: BrokerId) -> None:
        self.epoch += 1
        both = (HERE, OTHER)
        epoch = LeaderEpoch(self.epoch)
        state = PartitionState(leader, epoch, self.epoch, both, both)
        assert self.replica.partition.apply_state(state, 0) is ErrorCode.NONE
        self.replica.role_changed()

    @property
    def end(self) -> int:
        return self.entries[-1].end if self.entries else 0

    # -- work

    @rule(producer_id=PRODUCERS, count=st.integers(1, 4))
    def write(self, producer_id: int, count: int) -> None:
        """Append in the producer's transaction, which begins by it if none is open."""
        written = sum(
            e.records for e in self.entries if e.producer_id == producer_id and e.ends is None
        )
        builder = BatchBuilder()
        for number in range(count):
            builder.append(None, b"%d" % number, self.bench.clock.now)
        batch = builder.build(
            producer_id=producer_id, producer_epoch=0, base_sequence=written, transactional=True
        )
        self.append(batch, Entry(self.end, count, producer_id))

    @rule(count=st.integers(1, 4))
    def write_plainly(self, count: int) -> None:
        builder = BatchBuilder()
        for number in range(count):
            builder.append(None, b"%d" % number, self.bench.clock.now)
        self.append(builder.build(), Entry(self.end, count, PLAIN))

    def append(self, batch: bytearray, entry: Entry) -> None:
        outcome = self.now(lambda: self.replica.append(batch, 1, 9, UNVERIFIED))
        assert outcome.error is ErrorCode.NONE, outcome
        assert outcome.base_offset == entry.offset
        self.entries.append(entry)

    @rule(producer_id=PRODUCERS, committed=st.booleans())
    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Write a marker, also where nothing is open: coordinators repeat themselves."""
        kind = ControlType.COMMIT if committed else ControlType.ABORT
        marker = EndMarker(kind, 0)
        outcome = self.now(lambda: self.replica.append_marker(producer_id, 0, marker))
        assert outcome.error is ErrorCode.NONE
        self.entries.append(Entry(self.end, 1, producer_id, committed))

    @rule(data=st.data())
    def replicate(self, data: st.DataObject) -> None:
        offset = data.draw(self.batch_ends())
        moved, _change = self.replica.partition.follower_fetched(OTHER, offset, 0)
        if moved:
            self.replica.high_watermark_moved()
        self.high_watermark = offset

    def batch_ends(self) -> st.SearchStrategy[int]:
        """Return the offsets at which a follower's log may end: it copies whole batches."""
        ends = [entry.end for entry in self.entries if entry.end >= self.high_watermark]
        return st.sampled_from([*ends, self.high_watermark])

    @rule(data=st.data())
    def lose_the_leadership(self, data: st.DataObject) -> None:
        """Follow a leader that has less, and lead again."""
        offset = data.draw(self.batch_ends())
        self.elect(OTHER)
        self.wait(self.replica.log.truncate_to(offset))
        self.replica.truncated()
        while self.entries and self.entries[-1].end > offset:
            self.entries.pop()
        assert self.replica.log.log_end_offset == max(self.end, self.start)
        self.high_watermark = self.replica.partition.high_watermark
        self.known_from = self.end
        self.elect(HERE)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.high_watermark))
        self.now(lambda: self.replica.delete_before(offset))
        self.now(self.replica.delete_old_segments)
        self.start = offset

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        log = self.replica.log
        recovery_point = log.recovery_point
        if is_clean:
            self.wait(log.close())
            self.wait(self.bench.directory.wait_for_tasks())
            self.bench.directory = self.bench.new_directory()
            recovery_point = self.end
        else:
            self.wait(self.bench.crash(log))
        self.known_from = self.end
        known = {"recovery_point": recovery_point, "log_start_offset": self.start}
        self.host(self.wait(self.bench.open(self.config, is_clean=is_clean, **known)))

    # -- what must hold

    def fate(self, entry: Entry) -> bool | None:
        """Return what became of the transaction that a batch belongs to; None while it is open."""
        for later in self.entries:
            same = later.producer_id == entry.producer_id
            if later.offset > entry.offset and same and later.ends is not None:
                return later.ends
        return None

    def last_stable_offset(self, replicated: int) -> int:
        """Everything before is committed, aborted, or plain, by a marker before `replicated`."""
        stable = self.high_watermark
        for entry in self.entries:
            if entry.producer_id == PLAIN or entry.ends is not None:
                continue
            ends = [
                e.offset
                for e in self.entries
                if e.producer_id == entry.producer_id
                and e.ends is not None
                and e.offset > entry.offset
            ]
            if not ends or min(ends) >= replicated:
                stable = min(stable, max(entry.offset, self.start))
        return stable

    @invariant()
    def the_last_stable_offset_is_the_models(self) -> None:
        if hasattr(self, "replica"):
            partition = self.replica.partition
            assert partition.high_watermark == self.high_watermark
            stable = partition.last_stable_offset
            assert self.start <= stable <= self.high_watermark
            # A new leader does not know which markers were not replicated; the outcome is certain nevertheless.
            known = max(self.high_watermark, self.known_from)
            least = self.last_stable_offset(self.high_watermark)
            assert least <= stable <= self.last_stable_offset(known)

    @invariant()
    def read_committed_sees_what_is_committed(self) -> None:
        if hasattr(self, "replica"):
            stable = self.replica.partition.last_stable_offset
            for entry in self.entries:
                if self.start <= entry.offset < stable:
                    self.check_from(entry.offset, stable)

    def check_from(self, offset: int, stable: int) -> None:
        """Read one response from an offset, and take out of it what Java's consumer takes out."""
        log = self.replica.log
        for max_bytes in (1, 250, 1 << 20):
            read = log.read(offset, max_bytes, stable, may_block=True, may_cut_first=False)
            assert read.range is not None
            data = read.range.file.read_at(read.range.length, read.range.position)
            aborted = log.aborted_transactions(offset, stable, read.range)
            read.range.release()
            assert [a.first_offset for a in aborted] == sorted(a.first_offset for a in aborted)
            headers = walk_complete(data)
            seen = visible(data, [(a.first_offset, a.producer_id) for a in aborted])
            end = headers[-1].last_offset + 1
            assert seen == [
                entry.offset
                for entry in self.entries
                if offset <= entry.offset < end
                and entry.ends is None
                and (entry.producer_id == PLAIN or self.fate(entry))
            ], (offset, aborted)
            if max_bytes == 1:
                touching = [e for e in self.entries if e.offset == offset]
                assert len(aborted) <= len(PRODUCER_IDS) + len(touching)

    def teardown(self) -> None:
        if hasattr(self, "replica"):
            self.wait(self.replica.log.close())
            self.wait(self.bench.directory.wait_for_tasks())
        self.bench.close()
        self.loop.close()
        shutil.rmtree(self.path)


PRODUCER_IDS = (1, 2, 3)


def visible(data: bytes, pending: list[tuple[int, int]]) -> list[int]:
    """Return the base offsets of the data batches that a consumer with read_committed returns."""
    aborted: set[int] = set()
    seen: list[int] = []
    for header in walk_complete(data):
        while pending and pending[0][0] <= header.last_offset:
            aborted.add(pending.pop(0)[1])
        if header.is_control:
            aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            seen.append(header.base_offset)
    return seen


TestTransactions = TransactionMachine.TestCase
# The same lives in each run, and none is played again and again to make it smaller.
TestTransactions.settings = settings(
    max_examples=examples(40),
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
)
