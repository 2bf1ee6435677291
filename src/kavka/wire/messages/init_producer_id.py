"""InitProducerId (key 22)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, string


@message(api_key=22, versions="0-5", flexible="2+")
class InitProducerIdRequest:
    """The request of InitProducerId."""

    transactional_id: string | None = field(nullable="0+", default=None)
    transaction_timeout_ms: i32 = field()
    producer_id: i64 = field("3+", default=-1)
    producer_epoch: i16 = field("3+", default=-1)


@message(api_key=22, versions="0-5", flexible="2+")
class InitProducerIdResponse:
    """The response of InitProducerId."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    error_code: i16 = field()
    producer_id: i64 = field(default=-1)
    producer_epoch: i16 = field()
