"""Errors of clients pass between processes as they are: those of tests, of Spark, of pools."""

from __future__ import annotations

import pickle

import pytest

from kavka.client.consumer.batches import CorruptRecordError
from kavka.client.producer.rejected_batch import RejectedBatch
from kavka.core.transactional_producer.errors import AbortableError
from kavka.errors import AuthenticationFailed, ErrorCode, KafkaError
from kavka.ids import TopicPartition


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms is no number"),
        AuthenticationFailed("PLAIN", "wrong password"),
        AbortableError(ErrorCode.TRANSACTION_ABORTABLE),
        CorruptRecordError(TopicPartition("t", 0), 7, "its checksum"),
        RejectedBatch(ErrorCode.INVALID_RECORD, "two are wrong", {1: "no key"}),
    ],
    ids=repr,
)
def test_an_error_is_pickled_with_its_code_and_its_text(error: KafkaError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))
