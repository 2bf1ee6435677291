"""Dependencies between transactions."""

from __future__ import annotations

from support.history.history_notation import allowed, found, judge

WRITES_INTERLEAVE = """
    p begin
    q begin
    p send a ok 0
    q send b ok 1
    q send 1/c ok 0
    p send 1/d ok 1
    p commit ok
    q commit ok
"""


def test_transactions_that_write_around_each_other_are_an_allowed_g0() -> None:
    text = WRITES_INTERLEAVE
    assert found(text) == set()
    assert allowed(text) == {"G0"}
    (cycle,) = judge(text).findings["G0"].examples
    assert (
        "p's transaction 0 (committed) ww-> q's transaction 1 (committed): t-0 offset 0 before 1"
        in str(cycle)
    )
    assert (
        "q's transaction 1 (committed) ww-> p's transaction 0 (committed): t-1 offset 0 before 1"
        in str(cycle)
    )


def test_transactions_that_write_in_one_order_are_no_cycle() -> None:
    assert "G0" not in allowed(
        WRITES_INTERLEAVE.replace("c ok 0", "c ok 1").replace("d ok 1", "d ok 0")
    )


def test_transactions_that_read_each_other_are_a_forbidden_cycle() -> None:
    text = """
        p begin
        q begin
        p send a ok 0
        q send 1/b ok 0
        p poll 1/0:b
        q poll 0:a
        p commit ok
        q commit ok
    """
    assert found(text) == {"G1c-wr", "precommitted-read"}
    assert allowed(text, read_committed=False) == {"G1c-wr", "precommitted-read"}


def test_transactions_that_read_one_after_another_are_no_cycle() -> None:
    text = """
        p begin
        p send a ok 0
        p commit ok
        q begin
        q poll 0:a
        q send 1/b ok 0
        q commit ok
        p begin
        p poll 1/0:b
        p commit ok
    """
    assert judge(text).findings == {}


def test_a_cycle_of_a_write_order_and_a_read_is_an_allowed_g1c() -> None:
    # q read p's record, but q's own record in the other partition stands before p's
    text = """
        q begin
        q send 1/x ok 0
        p begin
        p send a ok 0
        p send 1/y ok 1
        p commit ok
        q poll 0:a
        q commit ok
    """
    assert found(text) == set()
    assert allowed(text) == {"G1c"}


def test_a_missed_record_makes_an_allowed_g_single() -> None:
    # q saw p's record in partition 1, but not yet p's in partition 0
    text = """
        o send z ok 0
        p begin
        p send a ok 1
        p send 1/b ok 0
        p commit ok
        q begin
        q poll 0:z
        q poll 1/0:b
        q commit ok
    """
    assert found(text) == set()
    assert allowed(text) == {"G-single"}


def test_two_missed_records_make_an_allowed_g2() -> None:
    # a long fork: each saw one new record and not the other
    text = """
        o send y ok 0
        o send 1/z ok 0
        p send a ok 1
        r send 1/b ok 1
        q begin
        q poll 0:y 1:a 1/0:z
        q commit ok
        s begin
        s poll 0:y 1/0:z 1/1:b
        s commit ok
    """
    assert found(text) == set()
    assert allowed(text) == {"G2"}


def test_without_transactions_no_graph_is_made() -> None:
    text = """
        o send y ok 0
        o send 1/z ok 0
        p send a ok 1
        r send 1/b ok 1
        q poll 0:y 1:a 1/0:z
        s poll 0:y 1/0:z 1/1:b
    """
    assert judge(text).findings == {}
