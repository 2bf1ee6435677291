"""A partition knows its producers after two crashes, although retention took their batches between.

What a producer wrote before the first segment that is left is known from that segment's snapshot alone.

    0 .. 9       10 .. 19       20 .. 29      30 ..
    producer 7   producer 8     producer 8    producer 8
    `-- retention takes these --'
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kavka.core.producer_state import Duplicate
from kavka.errors import ErrorCode
from kavka.storage.disk.os_disk import OsDisk
from kavka.storage.log.log import Log
from kavka.storage.log_config import LogConfig
from kavka.wire.records.control import ControlType, EndMarker, encode_end_marker
from kavka.wire.records.header import BatchHeader, assign, read_header
from support.storage_bench import LogBench, add, make_batch

QUIET, BUSY = 7, 8
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=250)
TWO_KEPT = LogConfig(segment_bytes=1000, index_interval_bytes=250, retention_bytes=1500)
NONE_KEPT = LogConfig(segment_bytes=1000, index_interval_bytes=250, retention_bytes=0)


async def fill(bench: LogBench, config: LogConfig = SMALL) -> Log:
    """Append 35 batches of one record, the first five by the quiet producer."""
    log = await bench.open(config)
    for number in range(35):
        producer_id, sequence = (QUIET, number) if number < 5 else (BUSY, number - 5)
        add(log, size=100, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    return log


async def retain(bench: LogBench, log: Log) -> None:
    """Let retention remove what it may."""
    assert log.delete_old_segments(log.log_end_offset)
    await bench.directory.wait_for_tasks()


def batch(producer_id: int, sequence: int) -> BatchHeader:
    return read_header(
        make_batch(0, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    )


def assert_producers_are_known(log: Log) -> None:
    """Insist that each retry is a duplicate, each next batch is taken, and no other one is."""
    assert log.producers.check(batch(QUIET, 4)) == Duplicate(4, 4, 1_700_000_000_000)
    assert log.producers.check(batch(QUIET, 5)) is None
    assert log.producers.check(batch(QUIET, 6)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.producers.check(batch(BUSY, 29)) == Duplicate(34, 34, 1_700_000_000_000)
    assert log.producers.check(batch(BUSY, 30)) is None


def snapshots(bench: LogBench) -> list[int]:
    return sorted(int(path.stem) for path in bench.log_path.glob("*.snapshot"))


def test_recovery_then_retention_then_recovery(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await fill(bench)
        await bench.crash(log)
        for snapshot in bench.log_path.glob("*.snapshot"):
            snapshot.unlink()  # those were not synced when the machine went down
        log = await bench.open(TWO_KEPT)
        assert snapshots(bench) == [10, 20, 30]
        await retain(bench, log)
        assert log.log_start_offset == 20
        await bench.crash(log)
        log = await bench.open(TWO_KEPT)
        assert_producers_are_known(log)
        await log.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("recovery_point", [15, 25, 32, 35])
def test_a_snapshot_of_the_flushed_part_that_is_missing_is_written_again(
    bench: LogBench, recovery_point: int
) -> None:
    """A flush may pass the beginning of a segment before the roll has written its snapshot."""

    async def scenario() -> None:
        log = await fill(bench)
        await bench.crash(log)
        for snapshot in bench.log_path.glob("*.snapshot"):
            snapshot.unlink()
        log = await bench.open(TWO_KEPT, recovery_point=recovery_point)
        assert snapshots(bench) == [10, 20, 30]
        await retain(bench, log)
        await bench.crash(log)
        log = await bench.open(TWO_KEPT, recovery_point=recovery_point)
        assert_producers_are_known(log)
        await log.close()

    asyncio.run(scenario())


def test_damaged_snapshots_are_replaced_after_a_clean_stop_too(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await fill(bench)
        await log.close()
        for snapshot in bench.log_path.glob("*.snapshot"):
            snapshot.write_bytes(b"damaged")
        log = await bench.open(TWO_KEPT, recovery_point=35, is_clean=True)
        await retain(bench, log)
        await bench.crash(log)
        log = await bench.open(TWO_KEPT, recovery_point=35)
        assert_producers_are_known(log)
        await log.close()

    asyncio.run(scenario())


def test_a_log_without_producers_gets_no_snapshots_by_being_read(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        for _ in range(35):
            add(log, size=100)
        await bench.crash(log)
        for snapshot in bench.log_path.glob("*.snapshot"):
            snapshot.unlink()
        log = await bench.open(SMALL, recovery_point=35)
        assert snapshots(bench) == []
        await log.close()

    asyncio.run(scenario())


class WatchedDisk(OsDisk):
    """The real disk, which says in which order small files were written and files renamed."""

    def __init__(self) -> None:
        super().__init__(threads=2)
        self.done: list[str] = []

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        name = getattr(work, "__name__", "")
        if name == "rename_all":
            self.done.append(name)
        result = await super().run(work, *args)
        if name == "replace_file" and str(args[1]).endswith(".snapshot"):
            self.done.append(name)
        return result


def test_retention_waits_for_the_snapshot_of_what_stays(bench: LogBench) -> None:
    """A kill between the two would leave a log that knows no producer."""

    async def scenario() -> None:
        await bench.crash(await fill(bench, NONE_KEPT))
        disk = bench.disk = WatchedDisk()
        bench.directory = bench.new_directory()
        log = await bench.open(NONE_KEPT)
        await log.flush()
        disk.done.clear()
        assert log.delete_old_segments(35) == 4
        await bench.crash(log)
        assert disk.done == ["replace_file", "rename_all"]
        assert snapshots(bench) == [35]
        log = await bench.open(NONE_KEPT)
        assert log.log_start_offset == 35
        assert_producers_are_known(log)
        await log.close()
        disk.close()

    asyncio.run(scenario())


def test_records_deleted_beyond_a_roll_leave_its_snapshot(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await fill(bench)
        log.delete_before(35, 35)  # before the rolls have written anything
        await retain(bench, log)
        assert snapshots(bench) == [30]
        await bench.crash(log)
        log = await bench.open(SMALL, log_start_offset=35)
        assert_producers_are_known(log)
        await log.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("has_snapshots", [True, False])
def test_an_open_transaction_keeps_its_first_offset(bench: LogBench, has_snapshots: bool) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        open_facts = {"producer_id": QUIET, "producer_epoch": 0, "attributes": 0x10}
        add(log, size=100, **open_facts, base_sequence=0)
        for sequence in range(34):
            add(log, size=100, producer_id=BUSY, producer_epoch=0, base_sequence=sequence)
        await bench.crash(log)
        if not has_snapshots:
            for snapshot in bench.log_path.glob("*.snapshot"):
                snapshot.unlink()
        log = await bench.open(TWO_KEPT)
        await retain(bench, log)
        await bench.crash(log)
        log = await bench.open(TWO_KEPT)
        assert log.log_start_offset == 20
        assert log.producers.first_unstable_offset() == 0
        assert log.producers.has_open_transaction(QUIET, 0)
        marker = encode_end_marker(EndMarker(ControlType.ABORT, 0), QUIET, 0, 1000)
        log.append(marker, [assign(marker, read_header(marker), log.log_end_offset, 0)])
        assert [tuple(entry)[:3] for entry in log.aborted_transactions(20, 36)] == [(QUIET, 0, 35)]
        assert log.producers.oldest_open_transaction is None
        await log.close()

    asyncio.run(scenario())
