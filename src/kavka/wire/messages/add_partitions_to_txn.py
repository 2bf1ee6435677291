"""Makes partitions part of a transaction, before the first record is written there (KIP-98, KIP-890)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, i64, message, string, struct


@struct
class AddPartitionsToTxnRequestTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[i32] = field()


@struct
class AddPartitionsToTxnRequestTransaction:
    """The partitions to add to one transaction."""

    transactional_id: string = field("4+")
    producer_id: i64 = field("4+")
    producer_epoch: i16 = field("4+")
    verify_only: boolean = field("4+")
    """True if the partitions are only verified, not added: a leader sends this before it appends the first batch of a
    transaction (KIP-890).
    """
    topics: list[AddPartitionsToTxnRequestTopic] = field("4+")


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    """Names the partitions of a transaction: below version 4 a producer does, then brokers for several at once."""

    transactions: list[AddPartitionsToTxnRequestTransaction] = field("4+")
    v3_and_below_transactional_id: string = field("0-3")
    v3_and_below_producer_id: i64 = field("0-3")
    v3_and_below_producer_epoch: i16 = field("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnRequestTopic] = field("0-3")


@struct
class AddPartitionsToTxnResponsePartition:
    """Result for one partition."""

    partition_index: i32 = field()
    partition_error_code: i16 = field()
    """NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS: find the
    coordinator, try again. CONCURRENT_TRANSACTIONS: the last transaction is still being
    completed, try again. INVALID_PRODUCER_ID_MAPPING: the transactional id is not known or has
    another producer id. PRODUCER_FENCED (INVALID_PRODUCER_EPOCH below version 2).
    UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED. OPERATION_NOT_ATTEMPTED: another partition of the
    request failed. INVALID_TXN_STATE (TRANSACTION_ABORTABLE from version 5): verification did
    not find the partition.
    """


@struct
class AddPartitionsToTxnResponseTopic:
    """Partitions of one topic."""

    name: string = field()
    results_by_partition: list[AddPartitionsToTxnResponsePartition] = field()


@struct
class AddPartitionsToTxnResponseTransaction:
    """Results for the partitions of one transaction."""

    transactional_id: string = field("4+")
    topic_results: list[AddPartitionsToTxnResponseTopic] = field("4+")


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    """Result for each partition; none is added unless all are."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field("4+", ignorable=True)
    """CLUSTER_AUTHORIZATION_FAILED: the asker is no broker."""
    results_by_transaction: list[AddPartitionsToTxnResponseTransaction] = field("4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponseTopic] = field("0-3")
