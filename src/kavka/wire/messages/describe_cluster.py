"""The brokers, the controller and the cluster's id (KIP-700, KIP-919)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i8, i16, i32, message, string, struct


@message(api_key=60, versions="0-1", flexible="0+")
class DescribeClusterRequest:
    """Asks for the cluster's id, brokers and controller."""

    include_cluster_authorized_operations: boolean = field()
    endpoint_type: i8 = field("1+", default=1)
    """1: brokers. 2: controllers, which only a controller's listener answers."""


@struct
class DescribeClusterResponseBroker:
    """A live broker."""

    broker_id: i32 = field()
    host: string = field()
    port: i32 = field()
    rack: string | None = field(nullable="0+", default=None)
    """None where the broker has no broker.rack."""


@message(api_key=60, versions="0-1", flexible="0+")
class DescribeClusterResponse:
    """The cluster's id, controller and brokers."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE: by `endpoint_type` of the request."""
    error_message: string | None = field(nullable="0+", default=None)
    endpoint_type: i8 = field("1+", default=1)
    cluster_id: string = field()
    controller_id: i32 = field(default=-1)
    """-1 while none is elected."""
    brokers: list[DescribeClusterResponseBroker] = field()
    cluster_authorized_operations: i32 = field(default=-2147483648)
    """A set of bits by AclOperation; the smallest number when not asked for."""
