"""Records of transactions as bytes of `__transaction_state`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.core.topic_partitions import partitions_by_topic
from kavka.core.transaction.records import StoredTransaction, TransactionRecord, TransactionState
from kavka.core.transaction.stored import from_bytes, to_bytes
from kavka.ids import TopicPartition
from kavka.wire.codec import CorruptFrame
from kavka.wire.stored.transactions import (
    TransactionLogKey,
    TransactionLogPartition,
    TransactionLogValue,
)
from support.transaction_records import encode_transaction_key, encode_transaction_value

PARTITIONS = frozenset(TopicPartition(topic, n) for topic in ("t", "u") for n in (0, 7))
VALUES = [
    StoredTransaction(5, 0, 60_000, TransactionState.EMPTY, frozenset(), 1000),
    StoredTransaction(5, 3, 60_000, TransactionState.ONGOING, PARTITIONS, 1000, 900),
    StoredTransaction(5, 3, 60_000, TransactionState.PREPARE_ABORT, PARTITIONS, 1000, 900, 4, 6, 2),
    StoredTransaction(5, 3, 60_000, TransactionState.ONGOING, PARTITIONS, 1000, 900, -1, 5, 2, 4),
    StoredTransaction(5, 3, 60_000, TransactionState.COMPLETE_COMMIT, frozenset(), 1000, 900),
]


@pytest.mark.parametrize("value", [*VALUES, None])
def test_records_survive_their_bytes(value: StoredTransaction | None) -> None:
    record = TransactionRecord("id", value)
    assert from_bytes(*to_bytes(record)) == record


def test_bytes_are_those_of_apache_kafka() -> None:
    key, value = to_bytes(TransactionRecord("id", VALUES[1]))
    assert key.hex() == "00000002" + b"id".hex()
    topics = "000174000000020000000000000007", "000175000000020000000000000007"
    assert value is not None
    assert value.hex() == (
        "0000" "0000000000000005" "0003" "0000ea60" "01" "00000002"
        + "".join(topics)
        + "00000000000003e8" "0000000000000384"
    )  # fmt: skip
    _, empty = to_bytes(TransactionRecord("id", VALUES[0]))
    assert empty is not None
    assert empty[17:21].hex() == "ffffffff", "an empty transaction has no list of partitions"


@given(
    transactional_id=st.text(max_size=300),
    numbers=st.tuples(*[st.integers(-1, 2**15 - 1)] * 8),
    version=st.integers(0, 2),
    state=st.sampled_from(TransactionState),
    topics=st.dictionaries(
        st.text(max_size=200), st.lists(st.integers(0, 2**31 - 1), max_size=200), max_size=4
    ),
)
def test_bytes_are_those_of_the_messages(
    transactional_id: str,
    numbers: tuple[int, ...],
    version: int,
    state: TransactionState,
    topics: dict[str, list[int]],
) -> None:
    rows = frozenset(TopicPartition(topic, n) for topic, some in topics.items() for n in some)
    producer_id, epoch, timeout_ms, updated_ms, start_ms, previous, following, next_epoch = numbers
    value = StoredTransaction(
        producer_id,
        epoch,
        timeout_ms,
        state,
        rows,
        updated_ms,
        start_ms,
        previous_producer_id=previous,
        next_producer_id=following,
        client_transaction_version=version,
        next_producer_epoch=next_epoch,
    )
    by_topic = partitions_by_topic(sorted(rows)).items()
    message = TransactionLogValue(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        transaction_timeout_ms=value.timeout_ms,
        transaction_status=state,
        transaction_partitions=None
        if state is TransactionState.EMPTY
        else [TransactionLogPartition(topic=t, partition_ids=some) for t, some in by_topic],
        transaction_last_update_timestamp_ms=value.last_update_ms,
        transaction_start_timestamp_ms=value.start_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_transaction_version=version,
        next_producer_epoch=value.next_producer_epoch,
    )
    assert to_bytes(TransactionRecord(transactional_id, value)) == (
        encode_transaction_key(TransactionLogKey(transactional_id=transactional_id)),
        encode_transaction_value(message),
    )


def test_clients_of_version_2_get_records_of_version_1() -> None:
    assert [(to_bytes(TransactionRecord("id", v))[1] or b"")[:2] for v in VALUES] == [
        b"\0\0",
        b"\0\0",
        b"\0\1",
        b"\0\1",
        b"\0\0",
    ]


def test_unknown_keys_are_skipped_and_unknown_states_are_corrupt() -> None:
    assert from_bytes(b"\0\1\0\2id", b"\0\0") is None
    key, value = to_bytes(TransactionRecord("id", VALUES[0]))
    assert value is not None
    with pytest.raises(CorruptFrame, match="no state has the number 7"):
        from_bytes(key, value[:16] + b"\7" + value[17:])
