"""One suite over the compiled kernel and its twin: the same bytes give the same values and the same errors."""

import gc
import struct
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kavka.wire.records import _kernel, corrupt, pure
from kavka.wire.records.corrupt import CorruptBatch
from support.examples import examples

FAR = 2**63 - 1


class Made(NamedTuple):
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def outcome(call, *arguments) -> Any:
    try:
        return call(*arguments)
    except CorruptBatch as error:
        return ("corrupt", error.what, error.position)
    except (ValueError, OverflowError, TypeError) as error:
        return type(error)


def both(name: str, *arguments) -> Any:
    """Return what both kernels give; they must agree."""
    compiled = outcome(getattr(_kernel, name), *arguments)
    python = outcome(getattr(pure, name), *arguments)
    assert compiled == python
    return compiled


octets = st.binary(max_size=20) | st.binary(min_size=60, max_size=300)
nullable = st.none() | octets
header = st.tuples(st.text(max_size=8), nullable)
rows = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1) | st.integers(0, 200),
        nullable,
        nullable,
        st.lists(header, max_size=3),
    ),
    max_size=80,
)


def columns_of(records) -> tuple[list[Any], ...]:
    return tuple(map(list, zip(*records, strict=True))) if records else ([], [], [], [])


def a_body(records, base_timestamp=100, reserve=0) -> bytearray:
    timestamps, keys, values, headers = columns_of(records)
    return both("encode", len(records), timestamps, keys, values, headers, base_timestamp, reserve)


@given(rows, st.integers(0, 70))
def test_what_is_encoded_is_decoded(records, reserve):
    body = a_body(records, reserve=reserve)
    assert body[:reserve] == bytes(reserve)
    made = both("records", body, reserve, len(body), len(records), 1000, 100, 0, -1, Made)
    assert made == [
        Made(1000 + index, timestamp, 0, key, value, tuple(headers))
        for index, (timestamp, key, value, headers) in enumerate(records)
    ]
    assert all(type(record) is Made for record in made)


def test_encoding_is_that_of_the_protocol_guide() -> None:
    body = a_body([(103, None, b"v", [("h", b"x")]), (99, b"k", None, [])])
    assert body == b"\x16\0\x06\0\x01\x02v\x02\x02h\x02x" + b"\x0e\0\x01\x02\x02k\x01\0"


@given(rows.filter(bool))
def test_columns_are_arrow_buffers(records):
    body = a_body(records)
    found = both("decode", [(body, 0, len(body), len(records), 7, 100, 0, -1)], 0)
    count, offsets, timestamps, types = found[:4]
    assert count == len(records)
    assert list(memoryview(offsets).cast("q")) == list(range(7, 7 + count))
    assert list(memoryview(timestamps).cast("q")) == [record[0] for record in records]
    assert types == bytes(count)
    assert rows_of(found[4:8], count) == [record[1] for record in records]
    assert rows_of(found[8:12], count) == [record[2] for record in records]
    lists = list(memoryview(found[12]).cast("i"))
    names = rows_of((*found[13:15], None, 0), lists[-1])
    contents = rows_of(found[15:19], lists[-1])
    for index, record in enumerate(records):
        span = slice(lists[index], lists[index + 1])
        pairs = list(zip(names[span], contents[span], strict=True))
        assert pairs == [(name.encode(), content) for name, content in record[3]]


def rows_of(column, count) -> list[bytes | None]:
    offsets, data, validity, nulls = column
    ends = memoryview(offsets).cast("i")
    assert len(ends) == count + 1
    assert len(data) == ends[-1]
    valid = [validity is None or validity[i >> 3] >> (i & 7) & 1 == 1 for i in range(count)]
    assert nulls == count - sum(valid)
    return [bytes(data[ends[i] : ends[i + 1]]) if valid[i] else None for i in range(count)]


@given(st.lists(rows, max_size=4), st.integers(0, 150))
def test_several_bodies_become_one_set_of_columns_from_an_offset_on(batches, first):
    parts, expected, base = [], [], 0
    for index, records in enumerate(batches):
        body = a_body(records)
        append_time = 5 if index % 2 else -1
        parts.append((body, 0, len(body), len(records), base, 100, index % 2, append_time))
        for delta, record in enumerate(records):
            if base + delta >= first:
                expected.append((base + delta, 5 if index % 2 else record[0], index % 2, record[1]))
        base += len(records)
    found = both("decode", parts, first)
    assert list(memoryview(found[1]).cast("q")) == [row[0] for row in expected]
    assert list(memoryview(found[2]).cast("q")) == [row[1] for row in expected]
    assert list(found[3]) == [row[2] for row in expected]
    assert rows_of(found[4:8], len(expected)) == [row[3] for row in expected]


@given(rows)
def test_columns_are_encoded_as_lists_are(records):
    body = a_body(records)
    found = both("decode", [(body, 0, len(body), len(records), 0, 100, 0, -1)], 0)
    key, value = (*found[4:7], 0, 4), (*found[8:11], 0, 4)
    names, contents = (*found[13:15], None, 0, 4), (*found[15:18], 0, 4)
    headers = (found[12], None, 0, 4, names, contents)
    again = both("encode_columns", len(records), (found[2], 0), key, value, headers, 100, 3)
    assert again == bytes(3) + body


@given(rows.filter(lambda some: len(some) > 3), st.booleans())
def test_slices_of_columns_are_encoded(records, wide):
    skipped = 2
    body = a_body(records)
    found = both("decode", [(body, 0, len(body), len(records), 0, 100, 0, -1)], 0)
    offsets = {at: found[at] for at in (4, 8, 12, 13, 15)}
    if wide:
        offsets = {
            at: struct.pack(f"<{len(x) // 4}q", *memoryview(x).cast("i"))
            for at, x in offsets.items()
        }
    width = 8 if wide else 4
    headers = (
        offsets[12],
        None,
        skipped,
        width,
        (offsets[13], found[14], None, 0, width),
        (offsets[15], found[16], found[17], 0, width),
    )
    key = (offsets[4], found[5], found[6], skipped, width)
    value = (offsets[8], found[9], found[10], skipped, width)
    count = len(records) - skipped
    again = both("encode_columns", count, (found[2], skipped), key, value, headers, 100, 0)
    assert again == a_body(records[skipped:])


@given(st.integers(0, 5), st.booleans())
def test_columns_that_are_left_out_are_null(count, with_keys):
    keys = [b"k"] * count if with_keys else None
    assert both("encode", count, None, keys, None, None, 77, 0) == a_body(
        [(100, b"k" if with_keys else None, None, [])] * count
    )
    both("encode_columns", count, None, None, None, None, 77, 0)


def test_lists_of_another_length_are_refused() -> None:
    assert both("encode", 2, [1], None, None, None, 0, 0) is ValueError
    assert both("encode", 2, None, [b"k"] * 3, None, None, 0, 0) is ValueError
    assert both("encode", 1, None, None, None, [], 0, 0) is ValueError


@pytest.mark.parametrize("wrong", [5, "text", 1.5])
def test_a_value_that_is_no_bytes_is_refused(wrong: float | int | str) -> None:
    assert both("encode", 1, None, [wrong], None, None, 0, 0) is TypeError
    assert both("encode", 1, None, None, None, [[("h", wrong)]], 0, 0) is TypeError
    assert both("encode", 1, [2**63], None, None, None, 0, 0) is OverflowError
    assert both("encode", 1, None, None, None, [[(None, b"")]], 0, 0) is ValueError


def test_other_kinds_of_bytes_are_taken() -> None:
    body = both("encode", 2, None, [bytearray(b"k"), memoryview(b"m")], None, None, 0, 0)
    assert both("keys", body, 0, len(body), 2, 0)[0] == [b"k", b"m"]


@given(rows, st.data())
def test_kept_records_stay_as_they_are(records, data):
    body = a_body(records)
    mask = bytes(
        data.draw(st.lists(st.integers(0, 1), min_size=len(records), max_size=len(records)))
    )
    kept, count, largest = both("keep", body, 0, len(body), len(records), 100, mask)
    chosen = [index for index in range(len(records)) if mask[index]]
    assert count == len(chosen)
    assert largest == max([-1, *(records[index][0] for index in chosen)])
    made = both("records", kept, 0, len(kept), count, 0, 100, 0, -1, Made)
    assert [(record.offset, record.value) for record in made] == [
        (index, records[index][2]) for index in chosen
    ]


@given(rows)
def test_the_cleaner_gets_keys_offsets_and_tombstones(records):
    body = a_body(records)
    keys, offsets, tombstones = both("keys", body, 0, len(body), len(records), 50)
    assert keys == [record[1] for record in records]
    assert offsets == list(range(50, 50 + len(records)))
    assert list(tombstones) == [record[2] is None for record in records]


def check(
    body,
    count,
    *,
    start=0,
    first=0,
    last=True,
    needs_key=False,
    base=100,
    low=-FAR,
    high=FAR,
    bounded=True,
):
    rest = (needs_key, base, low, high, bounded)
    return both("check", body, start, len(body), first, count, last, *rest)


@given(rows)
def test_a_sound_body_passes_the_check(records):
    body = a_body(records)
    index, position, largest, largest_index, violations = check(body, len(records), low=-(2**63))
    stamps = [record[0] for record in records]
    assert (index, position, violations) == (len(records), len(body), [])
    assert largest == max([-1, *stamps])
    assert largest_index == (stamps.index(largest) if largest in stamps and largest > -1 else -1)


def test_broken_rules_are_reported_by_record() -> None:
    body = a_body(
        [(5, b"k", b"", []), (50, None, b"", []), (500, b"k", b"", []), (-1, b"k", b"", [])]
    )
    assert check(body, 4, needs_key=True)[4] == [(1, corrupt.NO_KEY)]
    assert check(body, 4, low=6, high=499)[4] == [
        (0, corrupt.BAD_TIMESTAMP),
        (2, corrupt.BAD_TIMESTAMP),
    ]
    assert check(body, 4)[2:4] == (500, 2)
    second = both("keep", body, 0, len(body), 4, 100, b"\0\1\1\0")[0]
    assert check(second, 2)[4] == [(0, corrupt.WRONG_OFFSET), (1, corrupt.WRONG_OFFSET)]


def test_a_keyless_record_out_of_place_is_reported_as_keyless() -> None:
    body = both("encode", 2, None, None, None, None, 0, 0)
    body[body.index(b"\x02\x01")] = 8  # the offset delta of the second
    assert check(body, 2)[4] == [(1, corrupt.WRONG_OFFSET)]
    assert check(body, 2, needs_key=True)[4] == [(0, corrupt.NO_KEY), (1, corrupt.NO_KEY)]


@pytest.mark.parametrize("length", [0, 1, 7, 9, 63])
def test_lengths_that_mislead_are_a_broken_rule_where_records_are_not_bounded_by_them(
    length: int,
) -> None:
    body = a_body([(1, b"k", b"v", [("h", b"x")]), (2, b"k", None, []), (3, None, b"v", [])])
    second = body[0] // 2 + 1
    assert check(body, 3, bounded=False) == check(body, 3)
    assert body[second] == 16
    body[second] = 2 * length
    assert check(body, 3)[0] == "corrupt"
    whole = check(body, 3, bounded=False)
    assert (whole[0], whole[1], whole[4]) == (3, len(body), [(1, corrupt.MISLEADS)])


def test_a_header_without_key_is_a_broken_rule_where_records_are_not_bounded() -> None:
    body = a_body([(1, b"k", b"v", [("", b"x")])])
    body[-3] = 1  # the length of its key is -1
    assert check(body, 1)[0] == "corrupt"
    assert check(body, 1, bounded=False)[4] == [(0, corrupt.MISLEADS)]


@given(rows.filter(bool), st.data())
def test_unbounded_records_can_be_checked_in_chunks(records, data):
    body = a_body(records)
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    whole = check(body, len(records), bounded=False)
    first = check(body[:cut], len(records), last=False, bounded=False)
    if first[0] == "corrupt":
        assert whole[0] == "corrupt"
        return
    index, position, _, _, violations = first
    rest = check(body[position:], len(records), first=index, bounded=False)
    assert (rest[0] == "corrupt") == (whole[0] == "corrupt")
    if whole[0] != "corrupt":
        assert (rest[0], violations + rest[4]) == (whole[0], whole[4])


def test_broken_rules_are_reported_up_to_a_bound() -> None:
    body = a_body([(1, None, None, [])] * 3000)
    violations = check(body, 3000, needs_key=True)[4]
    assert violations == [(index, corrupt.NO_KEY) for index in range(corrupt.MAX_VIOLATIONS)]


@given(rows, st.integers(1, 90))
def test_a_body_can_be_checked_in_chunks(records, size):
    body = a_body(records)
    whole = check(body, len(records), low=0, high=150, needs_key=True)
    carry, index, largest, violations = bytearray(), 0, -1, []
    for start in range(0, len(body) + 1, size):
        carry += body[start : start + size]
        last = start + size > len(body)
        found = check(carry, len(records), first=index, last=last, low=0, high=150, needs_key=True)
        index, position = found[:2]
        largest = max(largest, found[2])
        violations += found[4]
        del carry[:position]
    assert (index, largest, violations) == (len(records), whole[2], whole[4])


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_count_that_lies_is_corrupt(count: int) -> None:
    body = a_body([(1, b"k", b"v", [])] * 2)
    for found in (
        check(body, count),
        both("records", body, 0, len(body), count, 0, 0, 0, -1, Made),
        both("decode", [(body, 0, len(body), count, 0, 0, 0, -1)], 0),
        both("keys", body, 0, len(body), count, 0),
    ):
        assert found[0] == "corrupt"


@pytest.mark.slow
@settings(max_examples=examples(400))
@given(rows.filter(bool), st.data())
def test_damage_is_seen_alike(records, data):
    body = a_body(records)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    everything(body, len(records))
    everything(body[:cut], len(records))


@settings(max_examples=examples(400))
@given(st.binary(max_size=120), st.integers(-2, 20))
@example(b"\xff" * 30, 1)
@example(b"\x80" * 30, 3)
@example(b"\xfe\xff\xff\xff\x0f" + b"\0" * 40, 1)
def test_arbitrary_bytes_never_do_harm(body, count):
    everything(body, count)


def everything(body, count):
    """Run each call that reads bytes over a body and parts of it; both kernels agree or this fails."""
    size = len(body)
    for start, end in ((0, size), (size // 2, size), (0, size + 9), (size, 0)):
        both("check", body, start, end, 0, count, True, True, -5, 0, 100)
        both("check", body, start, end, 0, count, False, False, -5, 0, 100)
        both("check", body, start, end, 0, count, True, True, -5, 0, 100, False)
        both("check", body, start, end, 0, count, False, False, -5, -9, 100, False)
        both("records", body, start, end, count, -3, 2**63 - 1, 0, -1, Made)
        both("decode", [(body, start, end, count, -3, 2**63 - 1, 1, 4)], -2)
        both("keys", body, start, end, count, 3)
        both("keep", body, start, end, count, 9, bytes(range(max(0, count))))


offsets32 = st.lists(st.integers(-3, 12), min_size=1, max_size=8)


@settings(max_examples=examples(300))
@given(
    offsets32,
    offsets32,
    offsets32,
    st.binary(max_size=10),
    st.binary(max_size=2),
    st.integers(0, 6),
    st.integers(0, 4),
)
def test_columns_that_lie_never_do_harm(first, second, third, data, validity, count, shift):
    def pack(numbers):
        return struct.pack(f"<{len(numbers)}i", *numbers)

    key = (pack(first), data, validity or None, shift, 4)
    value = (pack(second), data, None, 0, 4)
    headers = (pack(third), None, shift, 4, key, value)
    both("encode_columns", count, None, key, None, None, 0, 0)
    both("encode_columns", count, None, None, value, headers, 0, 2)
    both("encode_columns", count, (data, shift), None, value, None, 0, 2)


def test_header_keys_that_are_no_utf8_are_replaced() -> None:
    body = both("encode", 1, None, None, None, [[(b"\xff", None)]], 0, 0)
    made = both("records", body, 0, len(body), 1, 0, 0, 0, -1, Made)
    assert made[0].headers == (("\N{REPLACEMENT CHARACTER}", None),)


@given(st.lists(st.lists(nullable, max_size=20), max_size=4), st.data())
def test_columns_are_gathered(columns, data):
    parts, expected = [], []
    for rows_in in columns:
        body = both("encode", len(rows_in), None, rows_in, None, None, 0, 0)
        found = both("decode", [(body, 0, len(body), len(rows_in), 0, 0, 0, -1)], 0)
        first = data.draw(st.integers(0, len(rows_in)))
        count = data.draw(st.integers(0, len(rows_in) - first))
        parts.append((*found[4:7], first, 4, count))
        expected += rows_in[first : first + count]
    assert rows_of(both("gather", parts), len(expected)) == expected


@given(
    st.lists(st.tuples(offsets32, st.integers(0, 3), st.integers(0, 8)), max_size=3),
    st.binary(max_size=9),
)
def test_gathering_columns_that_lie_does_no_harm(columns, data):
    packed = [(struct.pack(f"<{len(o)}i", *o), shift, count) for o, shift, count in columns]
    both("gather", [(o, None, None, shift, 4, count) for o, shift, count in packed])
    both("gather", [(o, data, None, shift, 4, count) for o, shift, count in packed])
    both("gather", [(o, data, data, shift, 4, count) for o, shift, count in packed])


def test_more_headers_than_fit_are_corrupt_for_every_call() -> None:
    body = bytearray(both("encode", 1, None, [b"k"], [b"v" * 20], None, 0, 0))
    body[6] = 0  # the value is empty now, and its text stands where the headers are
    for claimed in (1, 15, 20, 63):
        body[7] = 2 * claimed
        for name, arguments in {
            "check": (body, 0, len(body), 0, 1, True, False, 0, -FAR, FAR),
            "records": (body, 0, len(body), 1, 0, 0, 0, -1, Made),
            "decode": ([(body, 0, len(body), 1, 0, 0, 0, -1)], 0),
            "keys": (body, 0, len(body), 1, 0),
            "keep": (body, 0, len(body), 1, 0, b"\1"),
        }.items():
            assert both(name, *arguments)[:2] == ("corrupt", corrupt.FAULTS[corrupt.FIELDS])


@pytest.mark.parametrize(
    "ends", [[0, 2**31, 2**31], [0, 2**62, 2**63 - 1], [0, 5, 2**63 - 1], [0, 2**63 - 1, 0]]
)
def test_more_headers_than_a_column_can_number_are_refused(ends):
    offsets = struct.pack("<3q", *ends)
    assert both("gather", [(offsets, None, None, 0, 8, 2)]) is OverflowError


@pytest.mark.parametrize("ends", [[11, -(2**63)], [2**63 - 1, -1], [-(2**63), 2**63 - 1]])
@pytest.mark.parametrize("data", [None, b"bytes"])
def test_offsets_whose_difference_wraps_are_refused(ends, data):
    assert both("gather", [(struct.pack("<2q", *ends), data, None, 0, 8, 1)]) is ValueError


def test_lists_of_several_columns_are_numbered_on_up_to_the_bound() -> None:
    half = (struct.pack("<2q", 0, 2**30 - 1), None, None, 0, 8, 1)
    ends = both("gather", [half, half])[0]
    assert struct.unpack("<3i", ends) == (0, 2**30 - 1, 2**31 - 2)
    assert both("gather", [half, half, half]) is OverflowError


@pytest.mark.parametrize("call", ["records", "keys", "keep"])
def test_a_count_beyond_all_numbers_of_bytes_is_refused(call: str) -> None:
    count = 0x2492492492492493  # seven times this is 5 in 64 bits
    more = {"records": (0, 0, 0, 0, Made), "keys": (0,), "keep": (0, b"")}[call]
    expected = ValueError if call == "keep" else ("corrupt", corrupt.FAULTS[corrupt.MISSING], 0)
    assert both(call, bytes(10), 0, 10, count, *more) == expected


@given(st.binary(max_size=40))
@settings(max_examples=examples(200))
def test_a_key_has_one_hash(key: bytes) -> None:
    both("murmur2", key)


def test_what_is_no_key_has_no_hash() -> None:
    assert both("murmur2", None) is TypeError


def test_the_collector_need_not_look_at_records() -> None:
    body = _kernel.encode(2, None, [b"k", None], [b"v", b"w"], None, 0, 0)
    arguments = (body, 0, len(body), 2, 5, 0, 0, 0)
    for made in _kernel.records(*arguments, Made):
        assert not gc.is_tracked(made)

    class Placed(NamedTuple):
        place: list[int]
        offset: int
        timestamp: int
        timestamp_type: int
        key: bytes | None
        value: bytes | None
        headers: tuple[tuple[str, bytes | None], ...]

    for record in _kernel.records(*arguments, Placed, ([],)):
        assert gc.is_tracked(record), "its list may hold the record itself"


pairs = st.one_of(
    st.tuples(st.none(), octets),
    st.tuples(nullable, nullable),
    st.tuples(st.none(), octets.map(bytearray)),
    st.lists(nullable, min_size=2, max_size=2),
)


@given(
    st.lists(pairs, max_size=20),
    st.integers(0, 25),
    st.integers(-1, 2000),
    st.integers(0, 20),
    st.integers(0, 200),
    st.booleans(),
)
@settings(max_examples=examples(300))
def test_values_are_taken_while_they_fit(
    given_pairs: list[Any], start: int, free: int, overhead: int, largest: int, as_tuple: bool
) -> None:
    rows = tuple(given_pairs) if as_tuple else given_pairs
    results = []
    for kernel in (_kernel, pure):
        values: list[bytes | None] = [b"before"]
        stamps = [1]
        end, used = kernel.take_values(rows, start, values, stamps, 7, free, overhead, largest)
        results.append((end, used, values, stamps))
    assert results[0] == results[1]
    taken = [value for _, value in rows[start:end]] if end > start else []
    assert values[1:] == taken
    assert used == sum(len(value) + overhead for value in taken) <= max(free, 0)
    assert len(stamps) == len(values)


def test_values_are_taken_of_lists_and_tuples_alone() -> None:
    both("take_values", iter([(None, b"v")]), 0, [], [], 0, 100, 14, 8192)


@pytest.mark.parametrize("kernel", [_kernel, pure])
def test_values_go_into_the_memory_that_was_taken_for_them(kernel) -> None:
    taken: list[bytearray] = []

    def take(size: int) -> memoryview:
        taken.append(bytearray(b"?" * size))
        return memoryview(taken[-1])

    rows: list[Any] = [(100, b"key", b"v%05d" % index * 200, []) for index in range(60)]
    body = a_body(rows)
    part = (body, 0, len(body), len(rows), 7, 100, 0, -1)
    found = kernel.decode([part], 0, take)
    assert found == kernel.decode([part], 0)
    assert [len(memory) for memory in taken] == [len(body)]
    assert found[9].obj is taken[0]
    # Of few rows a copy is kept, so that they do not hold all of the memory.
    few = kernel.decode([part], 40, take)
    assert few == kernel.decode([part], 40)
    assert type(few[9]) is bytearray
    assert kernel.decode([(a_body(rows[:9]), 0, 65_535, 9, 7, 100, 0, -1)], 0, take)[0] == 9
    assert len(taken) == 2, "little is not worth it"
    with pytest.raises(ValueError, match="less memory"):
        kernel.decode([part], 0, lambda size: memoryview(bytearray(size - 1)))
    with pytest.raises((TypeError, BufferError)):
        kernel.decode([part], 0, lambda size: memoryview(bytes(size)))


@pytest.mark.parametrize("kernel", [_kernel, pure])
def test_many_records_are_encoded_into_the_memory_that_was_taken_for_them(kernel) -> None:
    taken: list[bytearray] = []

    def take(size: int) -> memoryview:
        taken.append(bytearray(b"?" * (size + 5)))
        return memoryview(taken[-1])

    values = [b"v%05d" % index * 200 for index in range(60)]
    expected = kernel.encode(60, None, None, values, None, 5, 61)
    found = kernel.encode(60, None, None, values, None, 5, 61, take)
    assert found == expected
    assert found.obj is taken[0]
    assert type(kernel.encode(9, None, None, values[:9], None, 5, 61, take)) is bytearray
    with pytest.raises(ValueError, match="less memory"):
        kernel.encode(
            60, None, None, values, None, 5, 61, lambda size: memoryview(bytearray(size - 1))
        )
