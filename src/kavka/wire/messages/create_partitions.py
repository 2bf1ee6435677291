"""CreatePartitions (key 37)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, message, string, struct


@struct
class CreatePartitionsRequestAssignment:
    """Part of CreatePartitionsRequest."""

    broker_ids: list[i32] = field()


@struct
class CreatePartitionsRequestTopic:
    """Part of CreatePartitionsRequest."""

    name: string = field()
    count: i32 = field()
    assignments: list[CreatePartitionsRequestAssignment] | None = field(nullable="0+")


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """The request of CreatePartitions."""

    topics: list[CreatePartitionsRequestTopic] = field()
    timeout_ms: i32 = field()
    validate_only: boolean = field()


@struct
class CreatePartitionsResponseTopic:
    """Part of CreatePartitionsResponse."""

    name: string = field()
    error_code: i16 = field()
    error_message: string | None = field(nullable="0+", default=None)


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """The response of CreatePartitions."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    results: list[CreatePartitionsResponseTopic] = field()
