"""Interpretation of librdkafka's delivery reports by the workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kavka.ids import TopicPartition
from kavka.testing.history.operations import Type
from kavka.testing.history.workload.client import FatalClientError
from kavka.testing.history.workload.confluent import ConfluentProducer

AT = TopicPartition("t", 0)


class Report:
    """A delivered message, as far as the workload checks it."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset


class Delivering:
    """A producer of librdkafka's that delivers at once, at given offsets."""

    def __init__(self, offsets: Iterable[int]) -> None:
        self._offsets = iter(offsets)

    def produce(self, *_: Any, on_delivery: Callable[..., None], **__: Any) -> None:
        on_delivery(None, Report(next(self._offsets)))


def acknowledged(offsets: list[int]) -> list[int | None]:
    found: list[int | None] = []
    producer = ConfluentProducer(Delivering(offsets), KafkaError)

    def done(outcome: Type, offset: int | None, error: str | None) -> None:
        assert (outcome, error) == (Type.OK, None)
        found.append(offset)

    for _ in offsets:
        producer.send(AT, "value", done)
    return found


def test_offsets_of_the_broker_are_used() -> None:
    assert acknowledged([0, 1, 2, 7]) == [0, 1, 2, 7]


def test_a_repetition_has_no_offset_nor_have_the_others_of_its_batch() -> None:
    assert acknowledged([5, -1, 0, 1, 9, 10]) == [5, None, None, None, 9, 10]


def test_a_batch_after_a_repetition_of_one_record_is_believed() -> None:
    assert acknowledged([-1, 176, 177, -1, -1, 0]) == [None, 176, 177, None, None, None]


class Broken:
    """A producer with a library that has lost a fatal error, as confluent-kafka 2.16 does at times."""

    def flush(self, _: float) -> None:
        raise SystemError("flush returned NULL without setting an exception")

    def purge(self) -> None:
        pass

    def poll(self, _: float) -> None:
        pass


def test_a_fatal_error_that_the_library_lost_ends_the_producer_not_the_run() -> None:
    with pytest.raises(FatalClientError):
        ConfluentProducer(Broken(), KafkaError).close()
