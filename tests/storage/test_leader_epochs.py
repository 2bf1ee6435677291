"""Start and end offsets of leader epochs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.storage.checkpoint.files import CorruptCheckpoint
from kavka.storage.checkpoint.leader_epochs import EpochStart, LeaderEpochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs([EpochStart(*entry) for entry in entries])


def test_an_epoch_ends_where_the_next_begins() -> None:
    known = epochs((0, 0), (2, 10), (5, 30))
    assert known.end_offset_for(0, 50) == (0, 10)
    assert known.end_offset_for(1, 50) == (0, 10)
    assert known.end_offset_for(2, 50) == (2, 30)
    assert known.end_offset_for(5, 50) == (5, 50)


def test_unknown_epochs_have_no_end() -> None:
    assert epochs().end_offset_for(0, 5) == (-1, -1)
    assert epochs((3, 0)).end_offset_for(-1, 5) == (-1, -1)
    assert epochs((3, 0)).end_offset_for(4, 5) == (-1, -1)


def test_an_epoch_before_the_first_ends_where_the_first_begins() -> None:
    assert epochs((3, 7)).end_offset_for(1, 50) == (1, 7)


def test_a_new_epoch_is_noted_once() -> None:
    known = epochs((0, 0))
    known.assign(0, 5)
    assert not known.is_changed
    known.assign(1, 5)
    known.assign(1, 9)
    assert known.is_changed
    assert known.entries == [(0, 0), (1, 5)]


def test_an_epoch_that_begins_earlier_replaces_what_it_contradicts() -> None:
    known = epochs((0, 0), (1, 5), (2, 8))
    known.assign(3, 5)
    assert known.entries == [(0, 0), (3, 5)]


def test_an_epoch_that_goes_on_after_a_later_one_keeps_its_start() -> None:
    known = epochs((0, 0), (4, 15))
    known.assign(0, 15)
    assert known.entries == [(0, 0)]


@pytest.mark.parametrize(
    ("stored", "recovered"),
    [
        ([(0, 0), (4, 15)], [(0, 0), (1, 20)]),  # nothing was written in epoch 4
        ([(0, 0), (4, 17)], [(0, 0), (1, 20)]),  # inside of a batch
        ([(0, 0), (1, 20), (5, 25)], [(0, 0), (1, 20), (5, 25)]),  # behind all batches
        ([(0, 0), (1, 12)], [(0, 0), (1, 20)]),
        ([], [(0, 10), (1, 20)]),
    ],
)
def test_entries_that_contradict_a_batch_are_forgotten(
    stored: list[tuple[int, int]], recovered: list[tuple[int, int]]
) -> None:
    known = epochs(*stored)
    for epoch, base_offset in ((0, 10), (0, 15), (1, 20)):
        known.recover(epoch, base_offset, base_offset + 4)
    assert known.entries == recovered


def test_cutting_the_end_forgets_epochs_that_began_there() -> None:
    known = epochs((0, 0), (1, 5), (2, 8))
    known.truncate_from_end(5)
    assert known.entries == [(0, 0)]


def test_cutting_the_start_keeps_the_epoch_that_covers_it() -> None:
    known = epochs((0, 0), (1, 5), (2, 8))
    known.truncate_from_start(6)
    assert known.entries == [(1, 5), (2, 8)]
    known.truncate_from_start(8)
    assert known.entries == [(2, 8)]
    known.truncate_from_start(7)
    assert known.entries == [(2, 8)]


def test_an_epoch_ended_where_the_next_began_also_below_the_start() -> None:
    known = epochs((0, 0), (1, 34))
    known.truncate_from_start(45)
    assert known.end_offset_for(0, 59) == (
        0,
        34,
    )  # with 45 a follower that ends there would keep its records


def test_the_checkpoint_has_kafkas_lines() -> None:
    content = epochs((0, 0), (4, 100)).encode()
    assert content == b"0\n2\n0 0\n4 100\n"
    assert LeaderEpochs.decode(content).entries == [(0, 0), (4, 100)]


@pytest.mark.parametrize(
    "lines", [b"0\n2\n1 0\n1 5\n", b"0\n2\n1 5\n2 5\n", b"0\n1\n1\n", b"0\n1\na b\n"]
)
def test_a_checkpoint_that_contradicts_itself_is_refused(lines: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        LeaderEpochs.decode(lines)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=12), st.integers(0, 40))
def test_entries_grow_strictly_whatever_happens(steps: list[tuple[int, int]], cut: int) -> None:
    known = LeaderEpochs()
    for epoch, offset in steps:
        known.assign(epoch, offset)
        assert LeaderEpochs.decode(known.encode()).entries == known.entries
    known.truncate_from_start(cut)
    assert LeaderEpochs.decode(known.encode()).entries == known.entries
    assert all(entry.start_offset > cut for entry in known.entries[1:])
    known.truncate_from_end(cut)
    assert all(entry.start_offset < cut for entry in known.entries)
