"""One suite over the compiled kernel and its twin: records that go into a producer's batches, one by one."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.client.producer.partitioner import partition_of
from kavka.wire.records import _kernel, pure
from support.examples import examples

KERNELS = (_kernel, pure)
octets = st.binary(max_size=20) | st.binary(min_size=60, max_size=300)
nullable = st.none() | octets
names = st.text(st.characters(codec="utf-8"), max_size=8)
header_lists = st.lists(st.tuples(names, nullable), max_size=70)


@dataclass
class Batch:
    free_bytes: int
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    headers: dict[int, bytes] = field(default_factory=dict)


@given(st.lists(st.none() | header_lists, min_size=1, max_size=5))
@settings(max_examples=examples(200))
def test_packed_headers_are_encoded_as_pairs_are(lists: list[Any]) -> None:
    for kernel in KERNELS:
        packed = [None if one is None else kernel.pack_headers(tuple(one)) for one in lists]
        count = len(lists)
        plain = kernel.encode(count, None, None, None, lists, 7, 3)
        assert kernel.encode(count, None, None, None, packed, 7, 3) == plain
    assert packed == [None if one is None else _kernel.pack_headers(one) for one in lists]


@pytest.mark.parametrize(
    "headers",
    [
        None,
        {"name": b"value"},
        iter([("name", b"value")]),
        [["name", b"value"]],
        [("name",)],
        [(b"name", b"value")],
        [(None, b"value")],
        [("fine", b""), ("name", "value")],
        [("name", bytearray(b"value"))],
    ],
)
def test_other_headers_are_refused_and_change_no_batch(headers: Any) -> None:
    for kernel in KERNELS:
        batch = Batch(1000)
        with pytest.raises(TypeError):
            kernel.pack_headers(headers)
        assert kernel.take_keyed({0: batch}, 1, b"v", b"k", 5, headers, 14, 99) is (headers is None)
        assert batch == (Batch(984, [b"k"], [b"v"], [5]) if headers is None else Batch(1000))


def test_names_that_are_not_utf_8_are_refused_and_change_no_batch() -> None:
    for kernel in KERNELS:
        batch = Batch(1000)
        with pytest.raises(UnicodeEncodeError):
            kernel.pack_headers([("\ud800", b"")])
        with pytest.raises(UnicodeEncodeError):
            kernel.take_keyed({0: batch}, 1, b"v", b"k", 5, [("\ud800", b"")], 14, 99)
        with pytest.raises(ValueError, match="at least one partition"):
            kernel.take_keyed({0: batch}, 0, b"v", b"k", 5, None, 14, 99)
        assert batch == Batch(1000)


def taken_plainly(batch: Batch | None, record: Any, overhead: int, largest: int) -> bool:
    """Append as the producer does without the kernel's call."""
    value, key, timestamp, headers = record
    packed = None if headers is None else pure.pack_headers(headers)
    size = len(value) + len(key) + overhead + len(packed or b"")
    if batch is None or batch.free_bytes < size or size >= largest:
        return False
    if batch.values and not batch.keys:
        return False
    if packed is not None:
        batch.headers[len(batch.values)] = packed
    batch.free_bytes -= size
    batch.values.append(value)
    batch.keys.append(key)
    batch.timestamps.append(timestamp)
    return True


@given(
    st.integers(1, 4),
    st.dictionaries(st.integers(0, 4), st.tuples(st.integers(-1, 900), st.booleans())),
    st.lists(st.tuples(octets, octets, st.integers(0, 2**62), st.none() | header_lists)),
    st.integers(0, 20),
    st.integers(0, 400),
)
@settings(max_examples=examples(300))
def test_records_with_keys_are_taken_as_one_by_one(
    partitions: int, free: dict[int, Any], records: list[Any], overhead: int, largest: int
) -> None:
    outcomes = []
    for kernel in (*KERNELS, None):
        batches = {
            number: Batch(room, [], [b"no key"], [1]) if is_used else Batch(room)
            for number, (room, is_used) in free.items()
        }
        taken = []
        for record in records:
            value, key, timestamp, headers = record
            if kernel is None:
                batch = batches.get(partition_of(key, partitions))
                taken.append(taken_plainly(batch, record, overhead, largest))
            else:
                options = (timestamp, headers, overhead, largest)
                taken.append(kernel.take_keyed(batches, partitions, value, key, *options))
        outcomes.append((taken, batches))
    assert outcomes[0] == outcomes[1] == outcomes[2]
