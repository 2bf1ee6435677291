from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.sql.bounds import (
    COMPARISONS,
    And,
    Box,
    Compare,
    In,
    Interval,
    IsNull,
    Or,
    Predicate,
    mask,
    narrowed,
)
from support.examples import examples

BOX = Box("t", 1)


@pytest.mark.parametrize(
    ("predicates", "box"),
    [
        ([], BOX),
        ([Compare("=", "partition", 1)], BOX),
        ([Compare("=", "partition", 2)], None),
        ([Compare("!=", "topic", "t")], None),
        (
            [Compare(">=", "offset", 5), Compare("<", "offset", 9)],
            BOX._replace(offset=Interval(5, 8)),
        ),
        ([Compare(">", "offset", 5), Compare("<", "offset", 6)], None),
        ([In("offset", (9, 5, 7))], BOX._replace(offset=Interval(5, 9))),
        (
            [Or(Compare("=", "partition", 2), Compare(">", "offset", 5))],
            BOX._replace(offset=Interval(low=6)),
        ),
        (
            [And(Compare(">", "timestamp", 10), Compare("<=", "timestamp", 20))],
            BOX._replace(timestamp=Interval(11, 20)),
        ),
        ([IsNull("offset", True)], None),
        ([IsNull("timestamp", True)], BOX),
    ],
)
def test_predicates_leave_a_box(predicates: list[Predicate], box: Box | None) -> None:
    assert narrowed(predicates, BOX) == box


_small = st.integers(-2, 4)
_compare = st.one_of(
    st.builds(
        Compare, st.sampled_from(COMPARISONS), st.just("topic"), st.sampled_from(["s", "t", "u"])
    ),
    st.builds(
        Compare,
        st.sampled_from(COMPARISONS),
        st.sampled_from(["partition", "offset", "timestamp"]),
        _small,
    ),
    st.builds(
        In,
        st.sampled_from(["partition", "offset", "timestamp"]),
        st.lists(_small, min_size=1).map(tuple),
    ),
    st.builds(IsNull, st.sampled_from(["offset", "timestamp"]), st.booleans()),
)
_predicates = st.recursive(
    _compare, lambda inner: st.builds(And, inner, inner) | st.builds(Or, inner, inner)
)


@settings(max_examples=examples(100))
@given(st.lists(_predicates, min_size=1, max_size=3))
def test_a_row_that_satisfies_all_predicates_is_in_the_box(predicates: list[Predicate]) -> None:
    places: list[tuple[int, int | None]] = [
        (offset, timestamp) for offset in range(-1, 4) for timestamp in (None, -1, 0, 2, 3)
    ]
    arrays: dict[str, Any] = {
        "topic": pa.array(["t"] * len(places)),
        "partition": pa.array([1] * len(places), pa.int32()),
        "offset": pa.array([offset for offset, _ in places], pa.int64()),
        "timestamp": pa.array([timestamp for _, timestamp in places], pa.int64()),
    }
    box = narrowed(predicates, BOX)
    masks = [mask(predicate, arrays).to_pylist() for predicate in predicates]
    for (offset, timestamp), truths in zip(places, zip(*masks, strict=True), strict=True):
        if all(truths):
            assert box is not None
            assert box.offset.low <= offset <= box.offset.high
            assert timestamp is None or box.timestamp.low <= timestamp <= box.timestamp.high
