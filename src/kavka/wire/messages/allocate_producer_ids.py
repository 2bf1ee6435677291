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
    """A block of producer ids that belongs to this broker alone."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """NOT_CONTROLLER, STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_FAILED."""
    producer_id_start: i64 = field()
    producer_id_len: i32 = field()
    """Number of ids, from `producer_id_start` on."""
