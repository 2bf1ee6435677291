"""Digests recognise rows whatever batches they come in, and see every difference."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.spark.exactly_once.digest import Digest

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [("key", pa.string()), ("value", pa.binary()), ("headers", HEADERS), ("partition", pa.int32())]
)
SHORT = st.text("ab", max_size=3)
HEADER = st.fixed_dictionaries({"key": SHORT, "value": st.none() | st.binary(max_size=3)})
ROW = st.fixed_dictionaries(
    {
        "key": st.none() | SHORT,
        "value": st.none() | st.binary(max_size=4),
        "headers": st.none() | st.lists(HEADER, max_size=2),
        "partition": st.none() | st.integers(0, 3),
    }
)
Rows = list[dict[str, object]]


def digest(*pieces: pa.RecordBatch) -> str:
    found = Digest()
    for piece in pieces:
        found.add(piece)
    return found.text()


def batch(rows: Rows) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


@given(st.lists(ROW, max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_where_rows_are_cut_does_not_matter(rows: Rows, one: int, two: int) -> None:
    first, second = sorted((min(one, len(rows)), min(two, len(rows))))
    whole = batch(rows)
    slices = [whole[:first], whole[first:second], whole[second:]]
    copies = [batch(rows[:first]), batch(rows[first:second]), batch(rows[second:])]
    assert digest(whole) == digest(*slices) == digest(*copies)


@given(st.lists(ROW, min_size=1, max_size=6), st.lists(ROW, min_size=1, max_size=6))
def test_other_rows_have_another_digest(some: Rows, others: Rows) -> None:
    assert (digest(batch(some)) == digest(batch(others))) == (some == others)


@pytest.mark.parametrize(
    ("some", "others"),
    [
        ([b"ab", b"c"], [b"a", b"bc"]),
        ([b"", None], [None, b""]),
        ([b"a", b"b"], [b"b", b"a"]),
        ([b""], []),
    ],
)
def test_similar_rows_have_different_digests(
    some: list[bytes | None], others: list[bytes | None]
) -> None:
    one, two = (
        digest(pa.record_batch([pa.array(v, pa.binary())], ["value"])) for v in (some, others)
    )
    assert one != two
