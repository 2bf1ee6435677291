"""Positions of a consumer: they move forward without gaps, unless an event allows a new start."""

from __future__ import annotations

import pytest

from support.history.history_notation import allowed, found, judge

FOUR = """
    p send a ok 0
    p send b ok 1
    p send c ok 2
    p send d ok 3
    x poll 0:a 1:b 2:c 3:d
"""


def test_a_poll_that_leaves_out_a_record_skips_internally() -> None:
    text = FOUR + "c poll 0:a 2:c"
    assert found(text) == {"int-poll-skip"}
    (skip,) = judge(text).findings["int-poll-skip"].examples
    assert "left off at offset 1" in skip.explain()
    assert "skipping 'b' at 1" in skip.explain()


def test_two_polls_with_a_record_between_them_skip() -> None:
    assert found(FOUR + "c poll 0:a\nc poll 2:c") == {"poll-skip"}


def test_a_gap_in_the_offsets_is_no_skip() -> None:
    text = "p send a ok 0\np send b ok 5\nc poll 0:a 5:b"
    assert found(text) == set()


def test_an_unread_record_of_unknown_outcome_is_not_skipped() -> None:
    assert found("p send a ok 0\np send b info\np send c ok 2\nc poll 0:a 2:c") == set()


def test_an_aborted_record_is_not_skipped() -> None:
    text = """
        p send a ok 0
        q begin
        q send b ok 1
        q abort ok
        p send c ok 3
        c poll 0:a 3:c
    """
    assert found(text) == set()


def test_the_first_poll_may_begin_anywhere() -> None:
    assert found(FOUR + "c poll 2:c 3:d") == set()


def test_a_poll_that_turns_records_round_is_internally_nonmonotonic() -> None:
    assert found(FOUR + "c poll 1:b 0:a") == {"int-nonmonotonic-poll"}


def test_a_poll_that_repeats_a_record_is_internally_nonmonotonic() -> None:
    assert found(FOUR + "c poll 0:a 0:a") == {"int-nonmonotonic-poll"}


def test_a_poll_that_goes_back_behind_the_one_before_is_nonmonotonic() -> None:
    assert found(FOUR + "c poll 0:a 1:b\nc poll 1:b 2:c") == {"nonmonotonic-poll"}


def test_the_records_of_partitions_may_be_mixed() -> None:
    assert found(FOUR + "p send 1/w ok 0\nc poll 0:a 1/0:w 1:b") == set()


@pytest.mark.parametrize(
    "change",
    ["c seek 0", "c seek 0/", "c subscribe", "c rebalance -0 +0", "c assign 1\nc assign 0"],
)
def test_a_consumer_may_go_back_after_a_change(change: str) -> None:
    assert found(f"{FOUR}\nc poll 0:a 1:b\n{change}\nc poll 0:a 1:b") == set()


@pytest.mark.parametrize("change", ["c assign 0 1", "c rebalance -1 +2", "c seek 1/0", "d seek 0"])
def test_a_consumer_may_not_go_back_after_a_change_of_something_else(change: str) -> None:
    text = f"{FOUR}\nc poll 0:a 1:b\n{change}\nc poll 0:a 1:b"
    assert found(text) == {"nonmonotonic-poll"}


def test_a_seek_that_does_not_lead_to_its_offset_is_noticed() -> None:
    assert found(FOUR + "c seek 2\nc poll 1:b") == {"nonmonotonic-poll"}
    assert found(FOUR + "c seek 1\nc poll 2:c") == {"poll-skip"}
    assert found(FOUR + "c seek 1\nc poll 1:b 2:c") == set()


def test_a_rebalance_within_a_poll_starts_the_partition_again() -> None:
    text = FOUR + "c poll 0:a 1:b\nc poll? \nc rebalance -0 +0\nc poll! 0:a 0:a"
    assert found(text) == set()


def test_a_poll_that_failed_without_records_leaves_the_position() -> None:
    assert found(FOUR + "c poll 0:a\nc poll fail\nc poll 2:c") == {"poll-skip"}


def test_a_poll_of_unknown_outcome_loses_the_position() -> None:
    assert found(FOUR + "c poll 0:a\nc poll info\nc poll 2:c") == set()


def test_the_polls_of_a_transaction_belong_together() -> None:
    text = FOUR + "c begin\nc poll 0:a\nc poll 2:c\nc commit ok"
    assert found(text) == {"int-poll-skip"}


def test_records_below_the_start_of_the_log_are_not_skipped() -> None:
    assert found(FOUR + "c poll 0:a\nc poll 3:d\ns scan 3-4 3:d") == set()


def test_skips_of_groups_are_allowed_when_rebalances_are_not_recorded() -> None:
    text = FOUR + "c subscribe\nc poll 0:a\nc poll 2:c\nc poll 1:b"
    assert allowed(text, rebalances_recorded=False) == {"poll-skip", "nonmonotonic-poll"}


def test_a_scan_that_goes_back_is_noticed() -> None:
    assert found(FOUR + "s scan 0-4 0:a 2:c 1:b 3:d") == {"int-poll-skip", "int-nonmonotonic-poll"}
