"""DeleteTopics (key 20)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string, struct, uuid


@struct
class DeleteTopicsRequestTopic:
    """Part of DeleteTopicsRequest."""

    name: string | None = field(nullable="0+", default=None)
    topic_id: uuid = field()


@message(api_key=20, versions="0-6", flexible="4+")
class DeleteTopicsRequest:
    """The request of DeleteTopics."""

    topics: list[DeleteTopicsRequestTopic] = field("6+")
    topic_names: list[string] = field("0-5", ignorable=True)
    timeout_ms: i32 = field()


@struct
class DeleteTopicsResponseTopic:
    """Part of DeleteTopicsResponse."""

    name: string | None = field(nullable="6+")
    topic_id: uuid = field("6+", ignorable=True)
    error_code: i16 = field()
    error_message: string | None = field("5+", nullable="5+", default=None, ignorable=True)


@message(api_key=20, versions="0-6", flexible="4+")
class DeleteTopicsResponse:
    """The response of DeleteTopics."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    responses: list[DeleteTopicsResponseTopic] = field()
