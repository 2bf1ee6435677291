"""Create topics, by counts or by assignment (KIP-4, KIP-464, KIP-525)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i8, i16, i32, message, string, struct, uuid


@struct
class CreateTopicsRequestAssignment:
    """The brokers of one partition, the preferred leader first."""

    partition_index: i32 = field()
    broker_ids: list[i32] = field()


@struct
class CreateTopicsRequestConfig:
    """A setting of the topic."""

    name: string = field()
    value: string | None = field(nullable="0+", default=None)


@struct
class CreateTopicsRequestTopic:
    """A topic to create."""

    name: string = field()
    num_partitions: i32 = field()
    """-1 takes the broker's default (version 4 on), or goes with `assignments`."""
    replication_factor: i16 = field()
    """-1 takes the broker's default (version 4 on), or goes with `assignments`."""
    assignments: list[CreateTopicsRequestAssignment] = field()
    """The brokers of every partition; empty lets the controller choose."""
    configs: list[CreateTopicsRequestConfig] = field()


@message(api_key=19, versions="0-7", flexible="5+")
class CreateTopicsRequest:
    """Topics to create. The controller takes it."""

    topics: list[CreateTopicsRequestTopic] = field()
    timeout_ms: i32 = field(default=60000)
    """Milliseconds to wait until the topics are created; they may be created although the response is
    REQUEST_TIMED_OUT.
    """
    validate_only: boolean = field("1+")
    """Check everything, create nothing."""


@struct
class CreateTopicsResponseConfig:
    """A setting of the new topic."""

    name: string = field()
    value: string | None = field(nullable="0+", default=None)
    """None for a sensitive one."""
    read_only: boolean = field()
    config_source: i8 = field(default=-1)
    """Source of the value, as in DescribeConfigs."""
    is_sensitive: boolean = field()


@struct
class CreateTopicsResponseTopic:
    """Result for one topic."""

    name: string = field()
    topic_id: uuid = field("7+", ignorable=True)
    error_code: i16 = field()
    """TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST
    (named twice, or counts beside assignments), POLICY_VIOLATION. NOT_CONTROLLER: ask the
    controller. REQUEST_TIMED_OUT, THROTTLING_QUOTA_EXCEEDED. CLUSTER_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED.
    """
    error_message: string | None = field("1+", nullable="1+", default=None, ignorable=True)
    topic_config_error_code: i16 = field("5+", tag=0, ignorable=True)
    """TOPIC_AUTHORIZATION_FAILED where the asker may not see the settings, which then are None."""
    num_partitions: i32 = field("5+", default=-1, ignorable=True)
    """-1 when it may not be seen."""
    replication_factor: i16 = field("5+", default=-1, ignorable=True)
    """-1 when it may not be seen."""
    configs: list[CreateTopicsResponseConfig] | None = field("5+", nullable="5+", ignorable=True)
    """All settings of the topic as they are in force (KIP-525)."""


@message(api_key=19, versions="0-7", flexible="5+")
class CreateTopicsResponse:
    """Result for each topic."""

    throttle_time_ms: i32 = field("2+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    topics: list[CreateTopicsResponseTopic] = field()
