"""The cleaner's calls of both kernels: the same batches stay, byte for byte, whichever of them does the work."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.wire.records import _kernel, corrupt, kernel, pure, pure_cleaner
from kavka.wire.records.batch import BatchBuilder, decode_batch
from kavka.wire.records.compression import Compression
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import read_header, stamp_log_append_time, walk
from support.examples import examples

SEED = bytes(range(16))
KERNELS = [pytest.param(_kernel, id="compiled"), pytest.param(pure_cleaner, id="python")]


def outcome(call, *arguments) -> Any:
    try:
        return call(*arguments)
    except CorruptBatch as error:
        return ("corrupt", error.what, error.position)
    except ValueError as error:
        return ("value", str(error))


def a_batch(rows, base_offset=0, **how) -> bytearray:
    builder = BatchBuilder()
    for key, value, timestamp in rows:
        builder.append(key, value, timestamp, [("h", value)] if timestamp % 2 else None)
    return builder.build(base_offset=base_offset, **how)


keys = st.none() | st.sampled_from([b"", b"a", b"b", b"c" * 7, b"d" * 8, b"e" * 9, b"f" * 100])
values = st.none() | st.binary(max_size=12)
times = st.integers(0, 2**50) | st.integers(-(2**40), 5)
rows = st.lists(st.tuples(keys, values, times), min_size=1, max_size=6)
blocks = st.lists(
    st.tuples(
        rows,
        st.integers(0, 3),
        st.sampled_from([-1, 5]),
        st.booleans(),
        st.sampled_from([0, 0, 0, 4]),
    ),
    max_size=8,
)


def a_block(parts) -> bytes:
    """Batches with gaps between their offsets; some of a producer, some with the log's time, some compressed."""
    block, offset = bytearray(), 0
    for made, gap, producer, is_stamped, codec in parts:
        sequence = 7 if producer >= 0 else -1
        batch = a_batch(
            made,
            offset + gap,
            compression=Compression(codec),
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
        )
        if is_stamped:
            stamp_log_append_time(batch, read_header(batch), 77)
        block += batch
        offset += gap + len(made)
    return bytes(block)


def use(monkeypatch, module) -> None:
    for name in ("OffsetMap", "rebase", "outline"):
        monkeypatch.setattr(kernel, name, getattr(module, name))
    monkeypatch.setattr(kernel, "keep", (_kernel if module is _kernel else pure).keep)


@settings(max_examples=examples(200))
@given(
    blocks,
    st.integers(0, 30),
    st.integers(0, 40),
    st.integers(0, 2**51),
    st.integers(2, 12),
    st.lists(st.integers(0, 40), max_size=3),
    st.integers(0, 40),
    st.lists(st.integers(0, 40), max_size=3),
)
def test_a_block_comes_out_the_same(
    parts, from_offset, indexed, horizon_ms, room, kept, last, epochs
):
    from kavka.storage.compaction.batch_filter import CleaningRound, filter_block, index_block
    from kavka.storage.compaction.cleaned_transactions import CleanedTransactions

    block = a_block(parts)
    found = []
    for module in (_kernel, pure_cleaner):
        with pytest.MonkeyPatch.context() as patch:
            use(patch, module)
            offsets = module.OffsetMap(room + 5, room, SEED)
            noted = index_block(block, offsets, CleanedTransactions([]), from_offset)
            assert len(offsets) <= offsets.capacity == room
            outcomes: list[Any] = [noted, len(offsets)]
            now_ms = horizon_ms
            again: bytes | bytearray = block
            for _ in range(3):
                ends = struct.pack(f"={len(kept)}q", *sorted(kept))
                starts = struct.pack(f"={len(epochs)}q", *sorted(epochs))
                work = CleaningRound(
                    offsets, indexed, now_ms, horizon_ms + 9, ends, {}, last, starts
                )
                position, again = filter_block(again, work, CleanedTransactions([]))
                outcomes += [position, bytes(again)]
                now_ms += 9
            found.append(outcomes)
    assert found[0] == found[1]
    for header in walk(found[0][3]):
        whole = decode_batch(found[0][3], header.position)
        assert len(whole) == header.record_count


@pytest.mark.parametrize("module", KERNELS)
@pytest.mark.parametrize("length", [0, 1, 3, 7, 8, 9, 15, 16, 17, 63, 255, 256, 1000])
def test_keys_that_differ_in_one_bit_are_two(module, length):
    offsets = module.OffsetMap(64, 40, SEED)
    key = bytes(length)
    others = [
        key + b"\0",
        key[:-1] + b"\1" if key else b"\1",
        b"\x80" + key[1:] if key else b"\x80",
    ]
    body = BatchBuilder()
    for one in {key, *others}:
        body.append(one, b"", 0)
    batch = body.build()
    header = read_header(batch)
    assert offsets.add(batch, 61, len(batch), header.record_count, 0, 0)
    assert len(offsets) == header.record_count


@pytest.mark.parametrize("module", KERNELS)
def test_a_map_takes_as_many_keys_as_it_has_room_for(module):
    offsets = module.OffsetMap(11, 10, SEED)
    batch = a_batch([(b"%d" % number, b"", 0) for number in range(11)])
    assert not offsets.add(batch, 61, len(batch), 11, 0, 0)
    assert len(offsets) == 10
    # Keys that are known need no room.
    again = a_batch([(b"%d" % number, b"", 0) for number in range(10)])
    assert offsets.add(again, 61, len(again), 10, 100, 0)
    mask, kept, _ = offsets.choose(batch, 61, len(batch), 11, 0, 200, False)
    assert (bytes(mask), kept) == (bytes(10) + b"\1", 1)


@pytest.mark.parametrize("arguments", [(0, 0, SEED), (5, 5, SEED), (5, 0, SEED), (5, 4, b"short")])
def test_a_map_that_could_not_work_is_refused(arguments):
    assert outcome(_kernel.OffsetMap, *arguments) == outcome(pure_cleaner.OffsetMap, *arguments)
    assert outcome(_kernel.OffsetMap, *arguments)[0] == "value"


@given(rows, st.integers(-(2**63), 2**63 - 1))
def test_timestamps_move_and_nothing_else(made, shift):
    batch = a_batch(made)
    arguments = (batch, 61, len(batch), len(made), shift)
    moved = outcome(_kernel.rebase, *arguments)
    assert moved == outcome(pure_cleaner.rebase, *arguments)
    back = _kernel.rebase(moved, 0, len(moved), len(made), -shift if shift > -(2**63) else shift)
    assert back == batch[61:]


@given(
    blocks, st.integers(0, 300), st.integers(0, 300), st.integers(-1, 2**50), st.integers(0, 100)
)
def test_index_entries_are_the_same(parts, interval, unindexed, largest, largest_offset):
    block = a_block(parts)
    arguments = (block, interval, unindexed, largest, largest_offset)
    assert outcome(_kernel.outline, *arguments) == outcome(pure_cleaner.outline, *arguments)
    if block:
        cut = (block[:-1], *arguments[1:])
        assert outcome(_kernel.outline, *cut)[0] == "corrupt"
        assert outcome(_kernel.outline, *cut) == outcome(pure_cleaner.outline, *cut)


@given(rows, st.data())
def test_damage_is_found_by_the_checksum_before_it_does_harm(made, data):
    from kavka.storage.compaction.batch_filter import index_block
    from kavka.storage.compaction.cleaned_transactions import CleanedTransactions

    batch = a_batch(made)
    place = data.draw(st.integers(21, len(batch) - 1))
    batch[place] ^= 1 << data.draw(st.integers(0, 7))
    for module in (_kernel, pure_cleaner):
        offsets = module.OffsetMap(20, 10, SEED)
        with pytest.raises(CorruptBatch, match=corrupt.CHECKSUM):
            index_block(batch, offsets, CleanedTransactions([]), 0)
        assert len(offsets) == 0


@settings(max_examples=examples(300))
@given(st.binary(max_size=120), st.integers(0, 9), rows, st.booleans())
def test_records_that_break_the_format_break_nothing_else(garbage, count, made, is_plain):
    """The checksum of what is broken is right: a producer that no broker checked."""
    body = bytes(a_batch(made)[61:]) if is_plain else garbage
    batch = bytearray(a_batch([(b"", b"", 0)])[:61]) + body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 57, count)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    offsets = _kernel.OffsetMap(20, 10, SEED)
    single = outcome(offsets.add, batch, 61, len(batch), count, 0, 0)
    twin = pure_cleaner.OffsetMap(20, 10, SEED)
    assert single == outcome(twin.add, batch, 61, len(batch), count, 0, 0)
    arguments = (61, len(batch), count, 0, 5, False)
    assert outcome(offsets.choose, batch, *arguments) == outcome(twin.choose, batch, *arguments)
    whole = outcome(_kernel.OffsetMap(20, 10, SEED).index, batch, 0, 0)
    filtered = outcome(offsets.filter, batch, 0, 5, 0, 9, b"", 99, b"")
    if isinstance(single, tuple):
        assert whole == single
        assert filtered == single
    else:
        assert whole == (len(batch), 0, False)
        assert filtered[0] == len(batch)
