"""The duplicates that are librdkafka's own: of two epochs, and of a producer that gave a send up meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kavka.ids import TopicPartition
from kavka.testing.history.operations import Event, Send
from kavka.wire.records.header import BatchHeader
from kavka_chaos.renumbering import renumbered_duplicates
from kavka_chaos.rounds import Outcome
from support.history.history_notation import history

DOUBLED = """
    p send a ok 4
    p send 1/b info
    p send c ok 6
    s scan 0-7 4:a 5:a 6:c
"""


def batch(base_offset: int, epoch: int, records: int = 1) -> BatchHeader:
    return BatchHeader(0, base_offset, 49, 61, 0, 2, 0, 0, records - 1, 0, 0, 7, epoch, 0, records)


def given_up(text: str, error: str = "KafkaError{code=_AUTHENTICATION}") -> list[Event]:
    """Return a history whose sends to partition 1 ended with an error."""
    return [
        replace(event, error=error)
        if isinstance(event.action, Send) and event.action.partition.partition == 1
        else event
        for event in history(text)
    ]


def doubled(events: list[Event], *headers: BatchHeader) -> int:
    def batches(topic_partition: TopicPartition) -> list[BatchHeader]:
        assert topic_partition == TopicPartition("t", 0)
        return list(headers)

    return len(renumbered_duplicates(events, batches))


def test_copies_of_two_epochs_are_the_producers_own_once_it_has_given_a_send_up() -> None:
    assert doubled(given_up(DOUBLED), batch(0, 0, 5), batch(5, 1), batch(6, 1)) == 1


def test_copies_of_one_epoch_are_the_brokers_fault() -> None:
    assert doubled(given_up(DOUBLED), batch(0, 0, 5), batch(5, 0), batch(6, 1)) == 0


@pytest.mark.parametrize("error", ["", "KafkaError{code=_MSG_TIMED_OUT}"])
def test_a_producer_that_has_given_nothing_up_so_has_no_excuse(error: str) -> None:
    assert doubled(given_up(DOUBLED, error), batch(0, 0, 5), batch(5, 1), batch(6, 1)) == 0


def test_another_producers_errors_are_no_excuse() -> None:
    text = DOUBLED.replace("p send 1/b", "q send 1/b")
    assert doubled(given_up(text), batch(0, 0, 5), batch(5, 1), batch(6, 1)) == 0


def test_what_is_excused_is_counted_apart() -> None:
    outcome = Outcome()
    outcome.anomalies.update({"duplicate": 2})
    outcome.excuse("duplicate", 1)
    assert (outcome.anomalies, outcome.renumbered, outcome.passed) == ({"duplicate": 1}, 1, False)
    outcome.excuse("duplicate", 1)
    assert (outcome.anomalies, outcome.renumbered, outcome.passed) == ({}, 2, True)
