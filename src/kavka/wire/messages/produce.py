"""Append batches of records to partitions (KIP-98, KIP-467, KIP-951)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, records, string, struct


@struct
class ProduceRequestPartition:
    """The batch for one partition."""

    index: i32 = field()
    records: records | None = field(nullable="0+", default=None)
    """Exactly one batch of magic 2 from version 3 on; a set of messages of magic 0 or 1 before."""


@struct
class ProduceRequestTopic:
    """Partitions of one topic."""

    name: string = field()
    partition_data: list[ProduceRequestPartition] = field()


@message(api_key=0, versions="0-12", flexible="9+")
class ProduceRequest:
    """Batches for partitions that the broker leads."""

    transactional_id: string | None = field("3+", nullable="3+", default=None)
    """Set when the batches belong to a transaction, which the coordinator must know."""
    acks: i16 = field()
    """0: no response at all. 1: the leader has written. -1: all in-sync replicas have. Others are
    INVALID_REQUIRED_ACKS.
    """
    timeout_ms: i32 = field()
    """Milliseconds to wait for the replicas when `acks` is -1."""
    topic_data: list[ProduceRequestTopic] = field()


@struct
class ProduceResponseRecordError:
    """A record that made its batch fail."""

    batch_index: i32 = field()
    """The record's index in the batch, from 0."""
    batch_index_error_message: string | None = field(nullable="0+", default=None)


@struct
class ProduceResponseCurrentLeader:
    """The current leader of a partition; -1 and -1 when it is unknown."""

    leader_id: i32 = field(default=-1)
    leader_epoch: i32 = field(default=-1)


@struct
class ProduceResponsePartition:
    """Result for one batch."""

    index: i32 = field()
    error_code: i16 = field()
    """NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION: ask for metadata and send again.
    CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE,
    UNSUPPORTED_FOR_MESSAGE_FORMAT: the batch breaks a rule. MESSAGE_TOO_LARGE: above
    max.message.bytes. RECORD_LIST_TOO_LARGE: above segment.bytes. NOT_ENOUGH_REPLICAS:
    nothing was written. NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT: written here,
    perhaps not elsewhere. OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID,
    INVALID_PRODUCER_EPOCH: by the sequence of an idempotent producer. INVALID_REQUIRED_ACKS,
    INVALID_TOPIC_EXCEPTION, KAFKA_STORAGE_ERROR, TOPIC_AUTHORIZATION_FAILED.
    """
    base_offset: i64 = field()
    """The offset of the first record, also when the batch is a duplicate of one written before;
    -1 on error.
    """
    log_append_time_ms: i64 = field("2+", default=-1, ignorable=True)
    """Time at which the broker appended the batch, milliseconds since 1970, for topics with LogAppendTime; else -1.
    """
    log_start_offset: i64 = field("5+", default=-1, ignorable=True)
    """The first offset that the partition still has; -1 on error."""
    record_errors: list[ProduceResponseRecordError] = field("8+", ignorable=True)
    """The records that made the batch fail (KIP-467)."""
    error_message: string | None = field("8+", nullable="8+", default=None, ignorable=True)
    """Common cause of the record errors."""
    current_leader: ProduceResponseCurrentLeader = field("10+", tag=0)
    """The leader, where the error is NOT_LEADER_OR_FOLLOWER (KIP-951)."""


@struct
class ProduceResponseTopic:
    """Partitions of one topic."""

    name: string = field()
    partition_responses: list[ProduceResponsePartition] = field()


@struct
class ProduceResponseNodeEndpoint:
    """The endpoint of a broker."""

    node_id: i32 = field()
    host: string = field()
    port: i32 = field()
    rack: string | None = field(nullable="0+", default=None)
    """None where the broker has no broker.rack."""


@message(api_key=0, versions="0-12", flexible="9+")
class ProduceResponse:
    """Result for each partition's batch. None is sent for `acks` 0."""

    responses: list[ProduceResponseTopic] = field()
    throttle_time_ms: i32 = field("1+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    node_endpoints: list[ProduceResponseNodeEndpoint] = field("10+", tag=0)
    """Endpoints of the leaders named in `current_leader` (KIP-951)."""
