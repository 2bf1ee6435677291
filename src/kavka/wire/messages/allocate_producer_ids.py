"""A broker asks the controller for a block of producer ids (KIP-730)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message


@message(api_key=67, versions="0", flexible="0+")
class AllocateProducerIdsRequest:
    """The broker that gives ids to producers. The controller takes it."""

    broker_id: i32 = field()
    broker_epoch: i64 = field(default=-1)


@message(api_key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse:
    """Ids that nobody else was given."""

    throttle_time_ms: i32 = field()
    """How long the broker is held back because of a quota, milliseconds."""
    error_code: i16 = field()
    """NOT_CONTROLLER, STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_FAILED."""
    producer_id_start: i64 = field()
    producer_id_len: i32 = field()
    """How many there are, from `producer_id_start` on."""
