"""Opening of a log after a crash or damage."""

from __future__ import annotations

import asyncio
import logging
import zlib
from pathlib import Path

import pytest

from kavka.storage.failures import CorruptFile
from kavka.storage.log.log import Log
from kavka.storage.log_config import LogConfig
from kavka.wire.records.control import ControlType, EndMarker, encode_end_marker
from kavka.wire.records.header import assign, read_header, walk
from support.storage_bench import LogBench, add, make_batch, read_offsets

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=250)
FIRST, SECOND = "00000000000000000000", "00000000000000000010"


async def fill(bench: LogBench, batches: int, config: LogConfig = SMALL) -> None:
    """Append one-record batches of 100 bytes and die."""
    log = await bench.open(config)
    for number in range(batches):
        add(log, size=100, timestamp=1000 + number)
    await bench.crash(log)


def index_files(path: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in path.iterdir() if p.suffix in (".index", ".timeindex")}


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


def test_a_killed_broker_loses_nothing_that_was_written(bench: LogBench) -> None:
    async def scenario() -> None:
        await fill(bench, 35)
        async with bench.log(SMALL) as log:
            assert read_offsets(log) == [(n, n) for n in range(35)]
            assert log.recovery.cut_bytes == 0
            assert log.recovery.checked_segments == [0, 10, 20, 30]

    asyncio.run(scenario())


def test_rebuilt_indexes_equal_those_that_were_written(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        for number in range(35):
            add(log, 2, size=60 + number * 7, timestamp=1000 + number * 7 % 50)
        await log.close()
        written = index_files(bench.log_path)
        assert len(written) >= 8
        for name in written:
            (bench.log_path / name).write_bytes(b"garbage that is no index")
        await bench.crash(log)
        log = await bench.open(SMALL)
        await log.close()
        assert index_files(bench.log_path) == written

    asyncio.run(scenario())


def test_segments_below_the_recovery_point_are_not_checked(bench: LogBench) -> None:
    async def scenario() -> None:
        await fill(bench, 35)
        flip(bench.log_path / f"{FIRST}.log", 90)
        async with bench.log(SMALL, recovery_point=25) as log:
            assert log.recovery.checked_segments == [20, 30]
            assert log.log_end_offset == 35

    asyncio.run(scenario())


@pytest.mark.parametrize("left", [1, 12, 60, 61, 99])
def test_a_torn_tail_is_cut(bench: LogBench, left: int, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        await fill(bench, 5)
        path = bench.log_path / f"{FIRST}.log"
        path.write_bytes(path.read_bytes()[: 400 + left])
        with caplog.at_level(logging.WARNING):
            async with bench.log(SMALL) as log:
                assert log.log_end_offset == log.recovery.end_offset == 4
                assert log.recovery.cut_bytes == left
                assert log.recovery.damage is not None
                assert "position 400" in log.recovery.damage
        assert path.stat().st_size == 400
        assert "log truncated by recovery" in caplog.text

    asyncio.run(scenario())


@pytest.mark.parametrize("garbage", [bytes(4096), b"\xff" * 500, bytes(range(256)) * 3])
def test_a_garbage_block_at_the_end_is_cut(bench: LogBench, garbage: bytes) -> None:
    async def scenario() -> None:
        await fill(bench, 5)
        path = bench.log_path / f"{FIRST}.log"
        path.write_bytes(path.read_bytes() + garbage)
        async with bench.log(SMALL) as log:
            assert read_offsets(log) == [(n, n) for n in range(5)]
            assert log.recovery.cut_bytes == len(garbage)

    asyncio.run(scenario())


def test_everything_behind_a_flipped_bit_goes(bench: LogBench) -> None:
    async def scenario() -> None:
        await fill(bench, 35)
        flip(bench.log_path / f"{SECOND}.log", 570)
        async with bench.log(SMALL) as log:
            assert read_offsets(log) == [(n, n) for n in range(15)]
            assert log.recovery.dropped_segments == [20, 30]
            assert log.recovery.cut_bytes == 500 + 1000 + 500
            add(log, size=100)
            assert read_offsets(log)[-1] == (15, 15)

    asyncio.run(scenario())


def test_a_flipped_base_offset_is_found_although_no_checksum_covers_it(bench: LogBench) -> None:
    async def scenario() -> None:
        await fill(bench, 8)
        flip(bench.log_path / f"{FIRST}.log", 306)  # offset 3 becomes 3 + 0x1000
        async with bench.log(SMALL) as log:
            assert read_offsets(log) == [(0, 0), (1, 1), (2, 2)]

    asyncio.run(scenario())


def test_a_lost_index_of_a_flushed_segment_is_rebuilt_after_a_clean_stop(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        for _ in range(35):
            add(log, size=100)
        await log.close()
        before = index_files(bench.log_path)
        (bench.log_path / f"{SECOND}.index").unlink()
        (bench.log_path / f"{FIRST}.timeindex").write_bytes(bytes(13))
        async with bench.log(SMALL, recovery_point=35, is_clean=True) as log:
            assert log.recovery.rebuilt_segments == [0, 10]
            assert log.recovery.checked_segments == []
            assert read_offsets(log) == [(n, n) for n in range(35)]
        assert index_files(bench.log_path) == before

    asyncio.run(scenario())


@pytest.mark.parametrize("is_clean", [True, False])
def test_rebuilding_an_index_below_the_log_start_keeps_later_leader_epochs(
    bench: LogBench, is_clean: bool
) -> None:
    """A batch below the log's start contradicted the checkpoint, which begins there: the later epochs were lost."""

    async def scenario() -> None:
        log = await bench.open(SMALL)
        for number in range(45):
            epoch = number // 15
            log.assign_epoch(epoch, epoch * 15)
            add(log, size=100, epoch=epoch)
        await log.flush()
        log.delete_before(5, 45)
        await log.close()
        (bench.log_path / f"{FIRST}.index").unlink()
        known = {"recovery_point": 45, "log_start_offset": 5, "is_clean": is_clean}
        async with bench.log(SMALL, **known) as log:
            assert log.recovery.rebuilt_segments == [0]
            assert log.epochs.entries == [(0, 0), (1, 15), (2, 30)]

    asyncio.run(scenario())


def test_a_clean_stop_needs_no_recovery(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        for _ in range(25):
            add(log, size=100, timestamp=5000)
        await log.close()
        async with bench.log(SMALL, recovery_point=25, is_clean=True) as log:
            assert log.recovery.checked_segments == log.recovery.rebuilt_segments == []
            assert log.log_end_offset == log.recovery_point == 25
            assert log.segments[-1].max_timestamp == 5000
            add(log, size=100)
            assert read_offsets(log)[-1] == (25, 25)

    asyncio.run(scenario())


def test_producers_are_replayed_from_the_last_snapshot(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        for sequence in range(15):
            add(log, size=100, producer_id=7, producer_epoch=1, base_sequence=sequence)
        await bench.crash(log)
        log = await bench.open(SMALL)
        (entry,) = log.producers.entries()
        assert (entry.producer_id, entry.last_sequence, entry.last_offset) == (7, 14, 14)
        await log.close()
        assert (bench.log_path / "00000000000000000015.snapshot").exists()
        log = await bench.open(SMALL, recovery_point=15, is_clean=True)
        assert log.producers.entries() == [entry]
        await log.close()

    asyncio.run(scenario())


def test_a_damaged_snapshot_is_replaced_by_the_one_before(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        for sequence in range(25):
            add(log, size=100, producer_id=7, producer_epoch=1, base_sequence=sequence)
        await log.close()
        flip(bench.log_path / "00000000000000000025.snapshot", 12)
        log = await bench.open(SMALL, recovery_point=25, is_clean=True)
        assert log.producers.entries()[0].last_sequence == 24
        await log.close()

    asyncio.run(scenario())


def test_producers_of_deleted_segments_are_known_after_two_crashes(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        for number in range(25):
            quiet = number < 5
            sequence = number if quiet else number - 5
            add(log, size=100, producer_id=7 if quiet else 8, base_sequence=sequence)
        await bench.crash(log)
        for snapshot in bench.log_path.glob("*.snapshot"):
            snapshot.unlink()  # those were not synced when the machine went down
        await bench.crash(await bench.open(SMALL))
        (bench.log_path / f"{FIRST}.log").unlink()
        log = await bench.open(SMALL, log_start_offset=10)
        assert {e.producer_id: e.last_sequence for e in log.producers.entries()} == {7: 4, 8: 19}
        await log.close()

    asyncio.run(scenario())


def append_marker(log: Log, control_type: ControlType, producer_id: int) -> None:
    marker = encode_end_marker(EndMarker(control_type, 0), producer_id, 0, 1000)
    header = assign(marker, read_header(marker), log.log_end_offset, 0)
    log.append(marker, [header])


def test_the_transaction_index_is_rebuilt(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        add(log, 3, producer_id=1, producer_epoch=0, base_sequence=0, attributes=0x10)
        add(log, 2, producer_id=2, producer_epoch=0, base_sequence=0, attributes=0x10)
        append_marker(log, ControlType.ABORT, 1)
        append_marker(log, ControlType.COMMIT, 2)
        assert log.aborted_transactions(0, 7) == [(1, 0, 5, 3)]
        path = bench.log_path / f"{FIRST}.txnindex"
        written = path.read_bytes()
        await bench.crash(log)
        path.write_bytes(b"x" * 50)
        async with bench.log(SMALL) as log:
            assert log.aborted_transactions(0, 7) == [(1, 0, 5, 3)]
            assert log.aborted_transactions(6, 7) == []
            assert path.read_bytes() == written

    asyncio.run(scenario())


@pytest.mark.parametrize("has_snapshots", [True, False])
def test_the_transaction_index_of_a_closed_segment_is_rebuilt_with_the_others(
    bench: LogBench, has_snapshots: bool
) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        add(log, 3, producer_id=1, producer_epoch=0, base_sequence=0, attributes=0x10)
        log.roll()
        await bench.directory.wait_for_tasks()
        append_marker(log, ControlType.ABORT, 1)
        add(log, 2, producer_id=1, producer_epoch=0, base_sequence=3, attributes=0x10)
        append_marker(log, ControlType.ABORT, 1)
        log.roll()
        add(log, 1)
        expected = log.aborted_transactions(0, 8)
        assert [(a.first_offset, a.last_offset) for a in expected] == [(0, 3), (4, 6)]
        await bench.directory.wait_for_tasks()
        await log.close()
        bench.directory = bench.new_directory()
        (bench.log_path / f"{3:020d}.index").unlink()
        if not has_snapshots:
            for path in bench.log_path.glob("*.snapshot"):
                path.unlink()
        log = await bench.open(SMALL, recovery_point=8, is_clean=True)
        assert log.recovery.rebuilt_segments == [3]
        assert log.aborted_transactions(0, 8) == expected
        await bench.directory.wait_for_tasks()
        await log.close()

    asyncio.run(scenario())


def test_a_range_of_a_later_segment_has_its_aborted_transactions(bench: LogBench) -> None:
    async def scenario() -> None:
        config = LogConfig(segment_bytes=100_000, index_interval_bytes=0)
        log = await bench.open(config)
        add(log, 100)
        log.roll()
        for number in range(20):
            facts = {"producer_id": 1, "producer_epoch": 0, "base_sequence": number}
            add(log, 1, attributes=0x10, **facts)
            append_marker(log, ControlType.ABORT, 1)
        log.roll()
        await bench.directory.wait_for_tasks()
        read = log.read(110, 1, 140, may_block=True)
        assert read.range is not None
        found = log.aborted_transactions(110, 140, read.range)
        read.range.release()
        assert (1, 110, 111, 112) in found
        assert len(found) < 5
        await log.close()

    asyncio.run(scenario())


def test_leader_epochs_come_back_from_the_batches(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await bench.open(SMALL)
        for number in range(6):
            add(log, size=100, epoch=number // 2)
        await bench.crash(log)
        (bench.log_path / "leader-epoch-checkpoint").write_bytes(b"0\n")
        async with bench.log(SMALL) as log:
            assert log.epochs.entries == [(0, 0), (1, 2), (2, 4)]

    asyncio.run(scenario())


def test_an_epoch_without_records_does_not_come_back_from_an_old_checkpoint(
    bench: LogBench,
) -> None:
    """It led at the end of its log, wrote nothing, and followed a leader of lower epochs before it was killed."""

    async def scenario() -> None:
        log = await bench.open(SMALL)
        for number in range(6):
            add(log, size=100, epoch=number // 4)
        await bench.crash(log)
        (bench.log_path / "leader-epoch-checkpoint").write_bytes(b"0\n2\n0 0\n3 2\n")
        async with bench.log(SMALL) as log:
            assert log.epochs.entries == [(0, 0), (1, 4)]

    asyncio.run(scenario())


def test_an_emptied_log_begins_at_its_start_offset(bench: LogBench) -> None:
    async def scenario() -> None:
        await fill(bench, 5)
        async with bench.log(SMALL, log_start_offset=50) as log:
            assert (log.log_start_offset, log.log_end_offset) == (50, 50)
            add(log)
            assert read_offsets(log) == [(50, 50)]

    asyncio.run(scenario())


def test_legacy_messages_stop_the_opening_and_are_not_cut(bench: LogBench) -> None:
    legacy = bytes.fromhex(
        # offset 0, size 22, crc, magic 1, attributes, timestamp, null key, empty value
        "0000000000000000" "00000016" "c22ba3f3" "01" "00" "0000000000000064" "ffffffff" "00000000"
    )  # fmt: skip
    legacy = legacy[:12] + zlib.crc32(legacy[16:]).to_bytes(4, "big") + legacy[16:]

    async def scenario() -> None:
        bench.log_path.mkdir(parents=True)
        path = bench.log_path / f"{FIRST}.log"
        path.write_bytes(legacy * 3)
        with pytest.raises(CorruptFile, match="format 1"):
            await bench.open(SMALL)
        assert path.stat().st_size == len(legacy) * 3

    asyncio.run(scenario())


def test_a_batch_larger_than_a_block_is_checked(bench: LogBench) -> None:
    async def scenario() -> None:
        log = await bench.open()
        add(log, size=400_000)
        add(log, size=100)
        await bench.crash(log)
        log = await bench.open()
        assert read_offsets(log) == [(0, 0), (1, 1)]
        await bench.crash(log)
        flip(bench.log_path / f"{FIRST}.log", 399_000)
        async with bench.log() as log:
            assert log.log_end_offset == 0

    asyncio.run(scenario())


# Names that a stop leaves


def test_leftovers_of_deletion_and_cleaning_are_removed(bench: LogBench) -> None:
    async def scenario() -> None:
        await fill(bench, 5)
        for name in (
            f"{FIRST}.log.deleted",
            f"{FIRST}.index.cleaned",
            "x.tmp",
            "00000000000000000099.index",
        ):
            (bench.log_path / name).write_bytes(b"1")
        async with bench.log(SMALL) as log:
            assert log.log_end_offset == 5
        names = {path.name for path in bench.log_path.iterdir()}
        assert not {n for n in names if n.endswith((".deleted", ".cleaned", ".tmp"))}
        assert "00000000000000000099.index" not in names

    asyncio.run(scenario())


def test_finished_swap_files_replace_the_segments_they_cover(bench: LogBench) -> None:
    async def scenario() -> None:
        await fill(bench, 25)
        cleaned = make_batch(3) + make_batch(17)
        (bench.log_path / f"{FIRST}.log.swap").write_bytes(cleaned)
        compacted = LogConfig(segment_bytes=1000, cleanup_policy=frozenset({"compact"}))
        async with bench.log(compacted) as log:
            assert [s.base_offset for s in log.segments] == [0, 20]
            assert read_offsets(log) == [(3, 3), (17, 17), *((n, n) for n in range(20, 25))]
            assert len(walk((bench.log_path / f"{FIRST}.log").read_bytes())) == 2

    asyncio.run(scenario())


def test_swap_files_of_an_unfinished_cleaning_are_removed(bench: LogBench) -> None:
    async def scenario() -> None:
        await fill(bench, 25)
        (bench.log_path / f"{SECOND}.log.swap").write_bytes(make_batch(17))
        (bench.log_path / f"{FIRST}.log.cleaned").write_bytes(make_batch(3))
        async with bench.log(SMALL) as log:
            assert read_offsets(log) == [(n, n) for n in range(25)]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "swap", [b"", make_batch(3)[:-5], make_batch(3) + b"\0" * 80], ids=["empty", "cut", "zeros"]
)
def test_a_swap_file_that_is_damaged_replaces_nothing_and_is_named(
    bench: LogBench, swap: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        await fill(bench, 25)
        (bench.log_path / f"{FIRST}.log.swap").write_bytes(swap)
        (bench.log_path / f"{FIRST}.index.swap").write_bytes(b"")
        async with bench.log(SMALL) as log:
            assert read_offsets(log) == [(n, n) for n in range(25)]
        assert not [path for path in bench.log_path.iterdir() if path.name.endswith(".swap")]

    asyncio.run(scenario())
    assert "swap file refused" in caplog.text
    assert f"{FIRST}.log.swap" in caplog.text


LARGE = LogConfig(segment_bytes=1 << 20, index_interval_bytes=250)
COMPACTED = LogConfig(segment_bytes=1 << 20, cleanup_policy=frozenset({"compact"}))
THIRD = f"{20:020d}"


def swap_file(*offsets: int) -> bytes:
    return b"".join(make_batch(offset) for offset in offsets)


@pytest.mark.parametrize("damaged", [b"", swap_file(10)[:-5]], ids=["empty", "cut"])
def test_a_refused_swap_file_between_good_ones_keeps_its_segment(
    bench: LogBench, damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Everything from the first good one to the end of the last was removed."""

    async def scenario() -> None:
        await fill(bench, 30)
        (bench.log_path / f"{FIRST}.log.swap").write_bytes(swap_file(3, 9))
        (bench.log_path / f"{SECOND}.log.swap").write_bytes(damaged)
        (bench.log_path / f"{SECOND}.index.swap").write_bytes(b"")
        (bench.log_path / f"{THIRD}.log.swap").write_bytes(swap_file(25, 29))
        async with bench.log(COMPACTED) as log:
            kept = [3, 9, *range(10, 20), 25, 29]
            assert read_offsets(log) == [(n, n) for n in kept]
        assert not [path for path in bench.log_path.iterdir() if path.name.endswith(".swap")]

    asyncio.run(scenario())
    assert f"file={SECOND}.log.swap" in caplog.text


@pytest.mark.parametrize("damaged", [0, 10, 20])
def test_a_segment_that_was_split_is_kept_when_a_part_of_it_is_refused(
    bench: LogBench, damaged: int, caplog: pytest.LogCaptureFixture
) -> None:
    """As Apache Kafka splits one; each part that is missing has its only other copy in the segment."""

    async def scenario() -> None:
        log = await bench.open(LARGE)
        for number in range(40):
            if number == 30:
                log.roll()
            add(log, size=100, timestamp=1000 + number)
        await bench.crash(log)
        assert len(list(bench.log_path.glob("*.log"))) == 2
        for base in (0, 10, 20):
            content = b"" if base == damaged else swap_file(*range(base, base + 10))
            (bench.log_path / f"{base:020d}.log.swap").write_bytes(content)
        (bench.log_path / f"{30:020d}.log.swap").write_bytes(swap_file(35, 39))
        async with bench.log(COMPACTED) as log:
            assert [s.base_offset for s in log.segments] == [0, 30]
            assert read_offsets(log) == [(n, n) for n in [*range(30), 35, 39]]

    asyncio.run(scenario())
    for base in {0, 10, 20} - {damaged}:
        line = f"file={base:020d}.log.swap reason=another one of segment 0 was refused"
        assert line in caplog.text


def test_parts_of_a_segment_that_was_split_replace_it(bench: LogBench) -> None:
    async def scenario() -> None:
        await fill(bench, 30, LARGE)
        for base in (0, 10, 20):
            content = swap_file(*range(base, base + 10))
            (bench.log_path / f"{base:020d}.log.swap").write_bytes(content)
        async with bench.log(LARGE) as log:
            assert [s.base_offset for s in log.segments] == [0, 10, 20]
            assert read_offsets(log) == [(n, n) for n in range(30)]

    asyncio.run(scenario())
