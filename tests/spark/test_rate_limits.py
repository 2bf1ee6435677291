"""Counting of requests by client and minute, apart from Spark."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from kavka.pipelines.rate_limits import EXPIRED_S, KEPT_S, Minute, add_requests, count_requests

MINUTES = st.tuples(st.sampled_from("abc"), st.integers(0, 5).map(lambda number: number * 60))


def test_a_client_is_found_once_in_a_minute_and_again_in_the_next() -> None:
    counts: dict[Minute, int] = {}
    assert add_requests(counts, [("a", 0)] * 2 + [("b", 0)], limit=2) == []
    assert add_requests(counts, [("a", 0)] * 5, limit=2) == [("a", 0)]
    assert add_requests(counts, [("a", 0)] * 5, limit=2) == []
    assert add_requests(counts, [("a", 60)] * 3, limit=2) == [("a", 60)]


def test_old_minutes_are_forgotten_after_the_batch_not_within_it() -> None:
    counts: dict[Minute, int] = {}
    late = [("a", KEPT_S + 60), ("a", 0), ("a", 0), ("a", 60)]
    assert add_requests(counts, late, limit=1) == [("a", 0)]
    assert counts == {("a", KEPT_S + 60): 1, ("a", 60): 1}


def test_a_client_whose_partition_is_read_later_is_counted_all_the_same() -> None:
    counts: dict[Minute, int] = {("ahead", EXPIRED_S): 1}
    assert add_requests(counts, [("behind", 0)] * 2, limit=2) == []
    assert add_requests(counts, [("behind", 0)], limit=2) == [("behind", 0)]
    assert add_requests(counts, [("ahead", EXPIRED_S + 60)], limit=2) == []
    assert ("behind", 0) not in counts


@given(st.lists(st.lists(MINUTES, max_size=20)), st.integers(1, 4))
def test_every_split_into_batches_finds_the_same(batches: list[list[Minute]], limit: int) -> None:
    counts: dict[Minute, int] = {}
    found = [minute for batch in batches for minute in add_requests(counts, batch, limit)]
    total = Counter(minute for batch in batches for minute in batch)
    assert sorted(found) == sorted(minute for minute, count in total.items() if count > limit)


def test_the_state_is_kept_between_calls() -> None:
    state = SimpleNamespace(exists=False)

    def update(kept: Any) -> None:
        state.exists, state.get = True, kept

    state.update = update
    count = count_requests(limit=1)
    frame = pd.DataFrame([("a", 0), ("caf\u00e9", 0)], columns=["client", "minute"])
    [nothing] = count(0, [frame], state)
    assert nothing.empty
    [found] = count(0, [frame.iloc[1:], frame.iloc[1:]], state)
    assert found.to_dict("records") == [{"client": "caf\u00e9", "minute": 0}]
