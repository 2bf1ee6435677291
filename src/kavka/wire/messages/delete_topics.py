"""Delete topics, by name or by id (KIP-4, KIP-516)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string, struct, uuid


@struct
class DeleteTopicsRequestTopic:
    """A topic to delete."""

    name: string | None = field(nullable="0+", default=None)
    """None when it is given by id."""
    topic_id: uuid = field()
    """Zero when it is given by name."""


@message(api_key=20, versions="0-6", flexible="4+")
class DeleteTopicsRequest:
    """Topics to delete. The controller takes it."""

    topics: list[DeleteTopicsRequestTopic] = field("6+")
    topic_names: list[string] = field("0-5", ignorable=True)
    timeout_ms: i32 = field()
    """Milliseconds to wait until the topics are deleted."""


@struct
class DeleteTopicsResponseTopic:
    """Result for one topic."""

    name: string | None = field(nullable="6+")
    """None where the topic was given by id and is not known, or may not be seen."""
    topic_id: uuid = field("6+", ignorable=True)
    error_code: i16 = field()
    """UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, TOPIC_DELETION_DISABLED, INVALID_REQUEST
    (name and id, or named twice). NOT_CONTROLLER: ask the controller. REQUEST_TIMED_OUT,
    THROTTLING_QUOTA_EXCEEDED, TOPIC_AUTHORIZATION_FAILED.
    """
    error_message: string | None = field("5+", nullable="5+", default=None, ignorable=True)


@message(api_key=20, versions="0-6", flexible="4+")
class DeleteTopicsResponse:
    """Result for each topic."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    responses: list[DeleteTopicsResponseTopic] = field()
