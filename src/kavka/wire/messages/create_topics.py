"""CreateTopics (key 19)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i8, i16, i32, message, string, struct, uuid


@struct
class CreateTopicsRequestAssignment:
    """Part of CreateTopicsRequest."""

    partition_index: i32 = field()
    broker_ids: list[i32] = field()


@struct
class CreateTopicsRequestConfig:
    """Part of CreateTopicsRequest."""

    name: string = field()
    value: string | None = field(nullable="0+", default=None)


@struct
class CreateTopicsRequestTopic:
    """Part of CreateTopicsRequest."""

    name: string = field()
    num_partitions: i32 = field()
    replication_factor: i16 = field()
    assignments: list[CreateTopicsRequestAssignment] = field()
    configs: list[CreateTopicsRequestConfig] = field()


@message(api_key=19, versions="0-7", flexible="5+")
class CreateTopicsRequest:
    """The request of CreateTopics."""

    topics: list[CreateTopicsRequestTopic] = field()
    timeout_ms: i32 = field(default=60000)
    validate_only: boolean = field("1+")


@struct
class CreateTopicsResponseConfig:
    """Part of CreateTopicsResponse."""

    name: string = field()
    value: string | None = field(nullable="0+", default=None)
    read_only: boolean = field()
    config_source: i8 = field(default=-1)
    is_sensitive: boolean = field()


@struct
class CreateTopicsResponseTopic:
    """Part of CreateTopicsResponse."""

    name: string = field()
    topic_id: uuid = field("7+", ignorable=True)
    error_code: i16 = field()
    error_message: string | None = field("1+", nullable="1+", default=None, ignorable=True)
    topic_config_error_code: i16 = field("5+", tag=0, ignorable=True)
    num_partitions: i32 = field("5+", default=-1, ignorable=True)
    replication_factor: i16 = field("5+", default=-1, ignorable=True)
    configs: list[CreateTopicsResponseConfig] | None = field("5+", nullable="5+", ignorable=True)


@message(api_key=19, versions="0-7", flexible="5+")
class CreateTopicsResponse:
    """The response of CreateTopics."""

    throttle_time_ms: i32 = field("2+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    topics: list[CreateTopicsResponseTopic] = field()
