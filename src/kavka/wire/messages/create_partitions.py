"""Addition of partitions to topics (KIP-195)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, message, string, struct


@struct
class CreatePartitionsRequestAssignment:
    """The brokers of one new partition, the preferred leader first."""

    broker_ids: list[i32] = field()


@struct
class CreatePartitionsRequestTopic:
    """A topic to extend."""

    name: string = field()
    count: i32 = field()
    """The new total number of partitions."""
    assignments: list[CreatePartitionsRequestAssignment] | None = field(nullable="0+")
    """The brokers of every new partition; None lets the controller choose."""


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """The new number of partitions of topics. Sent to the controller."""

    topics: list[CreatePartitionsRequestTopic] = field()
    timeout_ms: i32 = field()
    """Milliseconds to wait until the partitions are created."""
    validate_only: boolean = field()
    """Check everything, create nothing."""


@struct
class CreatePartitionsResponseTopic:
    """Result for one topic."""

    name: string = field()
    error_code: i16 = field()
    """INVALID_PARTITIONS (not more than before), INVALID_REPLICA_ASSIGNMENT,
    REASSIGNMENT_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST (named twice).
    NOT_CONTROLLER: ask the controller. REQUEST_TIMED_OUT, TOPIC_AUTHORIZATION_FAILED.
    """
    error_message: string | None = field(nullable="0+", default=None)


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """Result for each topic."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    results: list[CreatePartitionsResponseTopic] = field()
