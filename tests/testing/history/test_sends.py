"""The order of a producer's records."""

from __future__ import annotations

from support.history.history_notation import allowed, found


def test_acknowledged_offsets_that_go_down_are_nonmonotonic() -> None:
    assert found("p send a ok 1\np send b ok 0") == {"nonmonotonic-send"}


def test_the_order_of_invocations_counts_not_that_of_acknowledgements() -> None:
    pipelined = "p send? a\np send? b\np send! b ok 1\np send! a ok 0"
    assert found(pipelined) == set()
    turned = "p send? a\np send? b\np send! a ok 1\np send! b ok 0"
    assert found(turned) == {"nonmonotonic-send"}


def test_a_record_of_unknown_fate_counts_where_it_was_read() -> None:
    assert found("p send a info\np send b ok 0\nc poll 0:b 1:a") == {"nonmonotonic-send"}


def test_partitions_and_producers_have_no_order_between_them() -> None:
    assert found("p send a ok 5\np send 1/b ok 0\nq send c ok 3") == set()


def test_a_transaction_whose_records_are_turned_round_is_internally_nonmonotonic() -> None:
    text = "p begin\np send a ok 1\np send b ok 0\np commit ok"
    assert found(text) == {"int-nonmonotonic-send"}


def test_order_is_not_promised_without_idempotence() -> None:
    text = "p send a ok 1\np send b ok 0"
    assert allowed(text, idempotent=False) == {"nonmonotonic-send"}


def test_a_record_of_another_between_two_of_a_producer_is_an_allowed_skip() -> None:
    assert allowed("p send a ok 0\nq send x ok 1\np send b ok 2") == {"send-skip"}
    inside = "p begin\np send a ok 0\nq send x ok 1\np send b ok 2\np commit ok"
    assert "int-send-skip" in allowed(inside)


def test_an_empty_offset_between_two_records_is_no_skip() -> None:
    assert allowed("p send a ok 0\np send b ok 2") == set()


def test_failed_records_have_no_place_in_the_order() -> None:
    assert found("p send a ok 0\np send b fail\np send c ok 1") == set()
