"""Errors of clients pass between processes as they are: those of tests, of Spark, of pools."""

from __future__ import annotations

import pickle

import pytest

from kavka.client import InvalidSetting, UnknownSetting
from kavka.client.consumer.batches import (
    ConsumerRecord,
    CorruptRecordError,
    RecordDeserializationError,
)
from kavka.client.producer.rejected_batch import RejectedBatch
from kavka.client.schemas import MissingExtra, RegistryError
from kavka.client.serialization import RecordSerializationError
from kavka.core.transactional_producer.errors import AbortableError
from kavka.errors import AuthenticationFailed, ErrorCode, KafkaError
from kavka.ids import TopicPartition

RECORD = ConsumerRecord("t", 0, 7, 1, 0, None, b"x", ())


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms is no number"),
        AuthenticationFailed("PLAIN", "wrong password"),
        AbortableError(ErrorCode.TRANSACTION_ABORTABLE),
        CorruptRecordError(TopicPartition("t", 0), 7, "its checksum"),
        RejectedBatch(ErrorCode.INVALID_RECORD, "two are wrong", {1: "no key"}),
        RecordDeserializationError(
            TopicPartition("t", 0), 7, "value", RECORD, ValueError("no number")
        ),
        RecordSerializationError("t", None, b"k", "value", ValueError("no number")),
        InvalidSetting("acks", "2", "it must be all, 0 or 1"),
        UnknownSetting({"ack": "acks"}),
        RegistryError("subject s", 500, 50001, "the store is full"),
        MissingExtra("fastavro"),
    ],
    ids=repr,
)
def test_an_error_is_pickled_with_its_code_and_its_text(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_a_record_that_cannot_be_read_says_why():
    error = RecordDeserializationError(
        TopicPartition("t", 0), 7, "value", RECORD, ValueError("no number")
    )
    assert str(error).startswith(
        "Error deserializing value for partition t-0 at offset 7: ValueError('no number'). If needed,"
    )
