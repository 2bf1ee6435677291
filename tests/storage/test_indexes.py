"""The sparse indexes: formats, lookups, truncation, sanity."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kavka.storage.disk.os_disk import OsDisk
from kavka.storage.disk.partition_directory import NotCached, OpenFiles, PartitionDirectory
from kavka.storage.failures import CorruptFile
from kavka.storage.segment.offset_index import OffsetIndex
from kavka.storage.segment.time_index import TimeIndex
from kavka.storage.segment.transaction_index import AbortedTransaction, TransactionIndex
from support.examples import examples


@pytest.fixture
def files(tmp_path: Path) -> PartitionDirectory:
    return PartitionDirectory(OsDisk(), str(tmp_path), OpenFiles(100))


def test_offset_index_entries_are_eight_bytes(files: PartitionDirectory, tmp_path: Path) -> None:
    index = OffsetIndex(files, "0.index")
    index.append(7, 4097)
    index.append(300, 9000)
    index.storage.write()
    assert (tmp_path / "0.index").read_bytes().hex() == "00000007000010010000012c00002328"


def test_time_index_entries_are_twelve_bytes_and_grow(
    files: PartitionDirectory, tmp_path: Path
) -> None:
    index = TimeIndex(files, "0.timeindex")
    index.append(1000, 5)
    index.append(1000, 9)
    index.append(999, 9)
    index.append(1001, 10)
    index.storage.write()
    expected = "00000000000003e80000000500000000000003e90000000a"
    assert (tmp_path / "0.timeindex").read_bytes().hex() == expected


def test_transaction_index_entries_are_34_bytes(files: PartitionDirectory, tmp_path: Path) -> None:
    index = TransactionIndex(files, "0.txnindex")
    assert not (tmp_path / "0.txnindex").exists()
    index.append(AbortedTransaction(1, 2, 3, 4))
    expected = "0000" + "".join(f"{n:016x}" for n in (1, 2, 3, 4))
    assert (tmp_path / "0.txnindex").read_bytes().hex() == expected


def test_aborted_transactions_are_collected_up_to_the_stable_offset(
    files: PartitionDirectory,
) -> None:
    index = TransactionIndex(files, "0.txnindex")
    one, two = AbortedTransaction(1, 0, 10, 5), AbortedTransaction(2, 5, 20, 21)
    index.append(one)
    index.append(two)
    assert index.collect(0, 11) == ([one, two], True)
    assert index.collect(0, 5) == ([one], True)
    assert index.collect(15, 40) == ([two], False)
    index.truncate(20)
    assert index.read() == [one]


def test_aborted_transactions_of_a_place_are_found_among_many(files: PartitionDirectory) -> None:
    index = TransactionIndex(files, "0.txnindex")
    entries = [AbortedTransaction(n % 3, 10 * n, 10 * n + 9, 10 * n + 10) for n in range(500)]
    for entry in entries:
        index.append(entry)
    assert index.collect(3_005, 3_006) == (entries[300:301], True)
    assert index.collect(2_990, 3_020) == (entries[299:302], True)
    assert index.collect(4_999, 6_000) == (entries[499:], False)
    assert index.collect(5_000, 6_000) == ([], False)
    assert index.collect(0, 6_000) == (entries, False)
    index.truncate(2_009)
    assert index.read() == entries[:200]


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(
    steps=st.lists(st.integers(1, 50), max_size=900),
    writes=st.sets(st.integers(0, 900), max_size=5),
    targets=st.lists(st.integers(-1, 40_000), min_size=1, max_size=20),
    cut=st.integers(0, 40_000),
)
def test_lookups_agree_with_a_list(
    files: PartitionDirectory, steps: list[int], writes: set[int], targets: list[int], cut: int
) -> None:
    index = OffsetIndex(files, "model.index")
    index.clear()
    model: list[tuple[int, int]] = []
    offset = 0
    for number, step in enumerate(steps):
        offset += step
        model.append((offset, offset * 10))
        index.append(*model[-1])
        if number in writes or index.storage.is_write_due:
            index.storage.write()
    for entries in (model, [entry for entry in model if entry[0] < cut]):
        index.truncate(cut if entries is not model else offset + 1)
        assert index.entries == len(entries)
        keys = [key for key, _ in entries]
        for target in targets:
            place = bisect_right(keys, target)
            expected = entries[place - 1][1] if place else 0
            assert index.position_before(target) == expected
    index.storage.write()
    again = OffsetIndex(files, "model.index")
    again.load()
    kept = [entry for entry in model if entry[0] < cut]
    assert [again.entry(n) for n in range(again.entries)] == kept


def test_time_lookups_give_the_entry_at_or_before(files: PartitionDirectory) -> None:
    index = TimeIndex(files, "0.timeindex")
    for number in range(1, 500):
        index.append(number * 10, number)
        if index.storage.is_write_due:
            index.storage.write()
    assert index.offset_before(9) == 0
    assert index.offset_before(10) == 1
    assert index.offset_before(1234) == 123
    assert index.offset_before(10**9) == 499
    index.truncate(123)
    assert (index.last_timestamp, index.last_offset) == (1220, 122)


def test_a_file_of_broken_entries_is_reported(files: PartitionDirectory, tmp_path: Path) -> None:
    (tmp_path / "a.index").write_bytes(bytes(9))
    with pytest.raises(CorruptFile, match="whole entries"):
        OffsetIndex(files, "a.index").load()
    # Kafka leaves preallocated zeros when it is killed.
    (tmp_path / "b.index").write_bytes(bytes.fromhex("0000000700001001") + bytes(80))
    with pytest.raises(CorruptFile):
        OffsetIndex(files, "b.index").load()
    (tmp_path / "c.timeindex").write_bytes(bytes.fromhex("00000000000003e800000005") + bytes(24))
    with pytest.raises(CorruptFile):
        TimeIndex(files, "c.timeindex").load()
    (tmp_path / "d.txnindex").write_bytes(bytes(33))
    with pytest.raises(CorruptFile):
        TransactionIndex(files, "d.txnindex").load()


def test_few_files_are_open_and_pinned_ones_stay(tmp_path: Path) -> None:
    files = PartitionDirectory(OsDisk(), str(tmp_path), OpenFiles(3))
    indexes = [OffsetIndex(files, f"{n}.index") for n in range(10)]
    pinned = indexes[0].storage.data
    pinned.pin()
    for number, index in enumerate(indexes):
        index.append(number + 1, number)
        index.storage.write()
    assert len(files.open_files) <= 4
    assert pinned.is_open
    pinned.unpin()
    assert [index.entry(0)[0] for index in indexes] == list(range(1, 11))


def test_a_lookup_that_may_not_block_says_what_is_cold(files: PartitionDirectory) -> None:
    index = OffsetIndex(files, "0.index")
    index.append(1, 1)
    index.append(5, 5)
    index.storage.write()
    file = index.storage.data.file()
    # A file system that does not report what is cached:
    file._probe = None  # type: ignore[attr-defined]
    with pytest.raises(NotCached):
        index.position_before(2, may_block=False)
    assert index.position_before(2) == 1
