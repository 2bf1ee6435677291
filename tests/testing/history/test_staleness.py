"""The lag of readers."""

from __future__ import annotations

from support.history.history_notation import judge


def lag_ms(text: str) -> dict[str, float]:
    return {
        str(topic_partition): lag / 1e6 for topic_partition, lag in judge(text).worst_lag_ns.items()
    }


def test_a_poll_that_returns_everything_has_no_lag() -> None:
    assert lag_ms("p send a ok 0\nc poll 0:a\nc poll") == {}


def test_a_poll_that_misses_a_record_lags_by_the_age_of_its_acknowledgement() -> None:
    text = """
        p send a ok 0
        c poll 0:a
        c poll
        p send b ok 1
        c poll
        c poll
        c poll 1:b
    """
    # acknowledged at 3.5 ms; the last poll without it began at 5 ms, the one with it at 6 ms
    assert lag_ms(text) == {"t-0": 1.5}


def test_a_consumer_that_is_catching_up_has_no_lag() -> None:
    assert lag_ms("p send a ok 0\np send b ok 1\nc poll 0:a\nc poll 1:b") == {}


def test_a_consumer_has_no_lag_in_what_it_does_not_read_any_more() -> None:
    text = "p send a ok 0\nc poll 0:a\nc poll\nc rebalance -0\np send b ok 1\nc poll\nc poll"
    assert lag_ms(text) == {}


def test_a_transaction_counts_from_its_commit() -> None:
    text = """
        p send a ok 0
        c poll 0:a
        c poll
        p begin
        p send b ok 1
        c poll
        p commit ok
        c poll
    """
    assert lag_ms(text) == {"t-0": 0.5}


def test_deleted_records_are_not_unseen() -> None:
    assert judge("p send a ok 0\ns scan 1-1").unseen == {}
