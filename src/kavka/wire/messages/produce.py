"""Produce (key 0)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, records, string, struct


@struct
class ProduceRequestPartition:
    """Part of ProduceRequest."""

    index: i32 = field()
    records: records | None = field(nullable="0+", default=None)


@struct
class ProduceRequestTopic:
    """Part of ProduceRequest."""

    name: string = field()
    partition_data: list[ProduceRequestPartition] = field()


@message(api_key=0, versions="0-11", flexible="9+")
class ProduceRequest:
    """The request of Produce."""

    transactional_id: string | None = field("3+", nullable="3+", default=None)
    acks: i16 = field()
    timeout_ms: i32 = field()
    topic_data: list[ProduceRequestTopic] = field()


@struct
class ProduceResponseRecordError:
    """Part of ProduceResponse."""

    batch_index: i32 = field()
    batch_index_error_message: string | None = field(nullable="0+", default=None)


@struct
class ProduceResponseCurrentLeader:
    """Part of ProduceResponse."""

    leader_id: i32 = field(default=-1)
    leader_epoch: i32 = field(default=-1)


@struct
class ProduceResponsePartition:
    """Part of ProduceResponse."""

    index: i32 = field()
    error_code: i16 = field()
    base_offset: i64 = field()
    log_append_time_ms: i64 = field("2+", default=-1, ignorable=True)
    log_start_offset: i64 = field("5+", default=-1, ignorable=True)
    record_errors: list[ProduceResponseRecordError] = field("8+", ignorable=True)
    error_message: string | None = field("8+", nullable="8+", default=None, ignorable=True)
    current_leader: ProduceResponseCurrentLeader = field("10+", tag=0)


@struct
class ProduceResponseTopic:
    """Part of ProduceResponse."""

    name: string = field()
    partition_responses: list[ProduceResponsePartition] = field()


@struct
class ProduceResponseNodeEndpoint:
    """Part of ProduceResponse."""

    node_id: i32 = field()
    host: string = field()
    port: i32 = field()
    rack: string | None = field(nullable="0+", default=None)


@message(api_key=0, versions="0-11", flexible="9+")
class ProduceResponse:
    """The response of Produce."""

    responses: list[ProduceResponseTopic] = field()
    throttle_time_ms: i32 = field("1+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    node_endpoints: list[ProduceResponseNodeEndpoint] = field("10+", tag=0)
