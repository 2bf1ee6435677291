"""Single records: lost, vanished, doubled, at the wrong offset, or never to be seen."""

from __future__ import annotations

from support.history.history_notation import allowed, found, judge

SOUND = """
    p send a ok 0
    p send b ok 1
    c poll 0:a 1:b
    s scan 0-2 0:a 1:b
"""


def test_a_sound_history_has_no_anomaly() -> None:
    verdict = judge(SOUND)
    assert verdict.findings == {}
    assert verdict.passed
    assert verdict.counts == {
        "polls": 1,
        "records polled": 2,
        "records scanned": 2,
        "sends ok": 2,
    }


def test_an_acknowledged_record_below_the_highest_read_offset_is_lost() -> None:
    text = """
        p send a ok 0
        p send b ok 1
        c poll 1:b
    """
    assert found(text) == {"lost-write"}
    (lost,) = judge(text).findings["lost-write"].examples
    assert lost.explain() == (
        "no consumer read 'a' to t-0 offset 0 by p's send (operation 0, 0.000 to 0.001 s, ok), "
        "but one read 'b' at t-0 offset 1 by c's poll (operation 2, 0.002 to 0.003 s, ok)"
    )


def test_an_acknowledged_record_above_the_highest_read_offset_is_only_unseen() -> None:
    text = """
        p send a ok 0
        p send b ok 1
        c poll 0:a
    """
    verdict = judge(text)
    assert verdict.findings == {}
    assert {str(topic_partition): count for topic_partition, count in verdict.unseen.items()} == {
        "t-0": 1
    }


def test_a_read_of_another_partition_proves_nothing() -> None:
    assert found("p send a ok 0\np send 1/b ok 5\nc poll 1/5:b") == set()


def test_an_acknowledged_record_that_a_scan_does_not_find_is_lost() -> None:
    assert found("p send a ok 0\np send b ok 1\ns scan 0-1 0:a") == {"lost-write"}


def test_a_record_acknowledged_without_an_offset_is_lost_when_a_scan_does_not_find_it() -> None:
    assert found("p send a ok\ns scan 0-0") == {"lost-write"}


def test_a_record_acknowledged_during_a_scan_need_not_be_in_it() -> None:
    assert found("p send? a\ns scan 0-0\np send! a ok 0") == set()


def test_a_record_below_the_start_of_the_log_was_deleted_not_lost() -> None:
    assert found("p send a ok 0\np send b ok 1\ns scan 1-2 1:b") == set()


def test_a_record_of_unknown_fate_may_be_missing() -> None:
    assert found("p send a info\np send b ok 1\nc poll 1:b\ns scan 0-2 1:b") == set()


def test_a_lost_write_is_allowed_without_acks_of_all() -> None:
    text = "p send a ok 0\np send b ok 1\nc poll 1:b"
    assert found(text, acks="1", idempotent=False) == set()
    assert allowed(text, acks="1", idempotent=False) == {"lost-write"}


def test_an_acknowledged_record_of_a_committed_transaction_is_lost() -> None:
    text = """
        p begin
        p send a ok 0
        p send b ok 1
        p commit ok
        q send c ok 3
        c poll 1:b 3:c
    """
    assert found(text) == {"lost-write"}


def test_a_transaction_of_unknown_fate_is_committed_when_one_of_its_records_was_read() -> None:
    text = """
        p begin
        p send a ok 0
        p send b ok 1
        p commit info
        c poll 1:b
    """
    assert found(text) == {"lost-write"}


def test_a_transaction_of_unknown_fate_may_be_missing_as_a_whole() -> None:
    text = """
        p begin
        p send a ok 0
        p commit info
        q send b ok 2
        c poll 2:b
    """
    assert found(text) == set()


def test_records_of_an_aborted_transaction_are_not_lost() -> None:
    assert found("p begin\np send a ok 0\np abort ok\nq send b ok 2\nc poll 2:b") == set()


def test_a_record_that_was_read_and_is_not_in_the_scan_has_vanished() -> None:
    assert found("p send a info\nc poll 0:a\ns scan 0-0") == {"vanished-read"}


def test_a_record_that_was_read_and_then_deleted_by_retention_has_not_vanished() -> None:
    assert found("p send a ok 0\nc poll 0:a\ns scan 1-1") == set()


def test_a_record_that_is_read_while_a_scan_runs_has_not_vanished() -> None:
    assert found("p send a info\nc poll? \ns scan 0-0\nc poll! 0:a") == set()


def test_a_value_at_two_offsets_is_a_duplicate() -> None:
    assert found("p send a ok 0\nc poll 0:a 1:a") == {"duplicate"}


def test_two_consumers_that_read_the_same_record_are_no_duplicate() -> None:
    assert found("p send a ok 0\nc poll 0:a\nd poll 0:a") == set()


def test_a_duplicate_is_allowed_without_idempotence() -> None:
    assert allowed("p send a ok 0\nc poll 0:a 1:a", idempotent=False) == {"duplicate"}


def test_two_values_at_one_offset_are_inconsistent() -> None:
    assert "inconsistent-offsets" in found("p send a info\np send b info\nc poll 0:a\nd poll 0:b")


def test_two_acknowledgements_of_one_offset_are_inconsistent() -> None:
    assert found("p send a ok 0\nq send b ok 0") == {"inconsistent-offsets"}


def test_a_value_elsewhere_than_acknowledged_is_inconsistent() -> None:
    assert found("p send a ok 0\nc poll 3:a") == {"inconsistent-offsets"}


def test_equal_offsets_of_two_partitions_are_consistent() -> None:
    assert found("p send a ok 0\np send 1/b ok 0\nc poll 0:a 1/0:b") == set()


def test_the_offset_of_an_aborted_record_says_nothing() -> None:
    assert found("p begin\np send a ok 0\np abort ok\nc poll") == set()


def test_a_value_that_was_not_sent_is_unwritten() -> None:
    assert found("c poll 0:a") == {"unwritten-read"}


def test_a_value_of_another_partition_is_unwritten() -> None:
    assert "unwritten-read" in found("p send 1/a ok 0\nc poll 0:a")


def test_a_value_that_is_sent_later_is_unwritten() -> None:
    assert found("c poll 0:a\np send a ok 0") == {"unwritten-read"}


def test_a_value_may_be_read_before_its_acknowledgement() -> None:
    assert found("p send? a\nc poll 0:a\np send! a ok 0") == set()


def test_a_record_whose_send_failed_must_not_be_read() -> None:
    assert found("p send a fail\nc poll 0:a") == {"failed-write-read"}
    assert found("p send a info\nc poll 0:a") == set()


def test_a_record_of_an_aborted_transaction_must_not_be_read() -> None:
    text = "p begin\np send a ok 0\np abort ok\nc poll 0:a"
    assert found(text) == {"aborted-read"}
    assert allowed(text, read_committed=False) == {"aborted-read"}


def test_a_commit_that_failed_has_aborted() -> None:
    assert found("p begin\np send a ok 0\np commit fail\nc poll 0:a") == {"aborted-read"}


def test_a_record_of_an_uncommitted_transaction_must_not_be_read() -> None:
    assert found("p begin\np send a ok 0\nc poll 0:a") == {"aborted-read"}


def test_a_record_must_not_be_read_before_the_commit_was_asked_for() -> None:
    text = "p begin\np send a ok 0\nc poll 0:a\np commit ok"
    assert found(text) == {"precommitted-read"}
    assert allowed(text, read_committed=False) == {"precommitted-read"}


def test_a_transaction_must_not_read_its_own_record() -> None:
    assert found("p begin\np send a ok 0\np poll 0:a\np commit ok") == {"precommitted-read"}


def test_a_record_may_be_read_while_the_commit_is_under_way() -> None:
    assert found("p begin\np send a ok 0\np commit? \nc poll 0:a\np commit! ok") == set()
