"""Records of a refused batch, each with its own error (KIP-467)."""

from __future__ import annotations

import asyncio

import pytest

from kavka.client import NewTopic, Producer, TopicPartition, blocking
from kavka.client.producer.rejected_batch import RejectedBatch, refusal
from kavka.errors import ErrorCode, KafkaError
from kavka.testing.local_cluster import LocalCluster
from kavka.wire.messages.produce import ProduceResponsePartition, ProduceResponseRecordError

NO_KEY = "Compacted topic cannot accept message without key."


def test_a_refusal_without_named_records_concerns_all() -> None:
    part = ProduceResponsePartition(error_code=ErrorCode.INVALID_RECORD, error_message="m")
    error = refusal(part, TopicPartition("t", 0))
    assert type(error) is KafkaError
    assert (error.code, error.detail) == (ErrorCode.INVALID_RECORD, "t-0: m")


@pytest.mark.parametrize(
    ("indexes", "start", "count", "code", "text"),
    [
        ([2], 2, 1, ErrorCode.INVALID_TIMESTAMP, "bad 2"),
        ([2], 0, 2, ErrorCode.INVALID_RECORD, "part of a batch which had one or more invalid"),
        ([2, 5], 2, 1, ErrorCode.INVALID_RECORD, "bad 2"),
        ([2, 5], 0, 9, ErrorCode.INVALID_RECORD, "bad 2"),
        ([2, 5], 3, 3, ErrorCode.INVALID_RECORD, "bad 5"),
    ],
)
def test_each_record_gets_the_error_that_concerns_it(
    indexes: list[int], start: int, count: int, code: ErrorCode, text: str
) -> None:
    errors = [
        ProduceResponseRecordError(batch_index=index, batch_index_error_message=f"bad {index}")
        for index in indexes
    ]
    part = ProduceResponsePartition(
        error_code=ErrorCode.INVALID_TIMESTAMP, record_errors=errors, error_message="many"
    )
    error = refusal(part, TopicPartition("t", 0))
    assert isinstance(error, RejectedBatch)
    found = error.of_records(start, count)
    assert found.code is code
    assert text in str(found)


@pytest.mark.kavka_cluster(brokers=1)
def test_only_the_record_without_key_is_called_invalid(kavka_cluster: LocalCluster) -> None:
    at = {"bootstrap.servers": kavka_cluster.bootstrap_servers}
    with blocking.Admin(at) as admin:
        admin.create_topics([NewTopic("c", 1, 1, configs={"cleanup.policy": "compact"})])

    async def outcomes() -> list[object]:
        async with Producer(at | {"linger.ms": "50"}) as producer:
            await producer.partitions_for("c")
            keys = (b"a", None, b"c")
            sent = [producer.append("c", b"v", key, want_future=True) for key in keys]
            return await asyncio.gather(*filter(None, sent), return_exceptions=True)

    first, bad, last = asyncio.run(outcomes())
    assert isinstance(bad, KafkaError)
    assert bad.detail == NO_KEY
    for neighbour in (first, last):
        assert isinstance(neighbour, KafkaError)
        assert "part of a batch which had one or more invalid records" in str(neighbour)
