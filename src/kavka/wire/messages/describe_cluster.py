"""DescribeCluster (key 60)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i8, i16, i32, message, string, struct


@message(api_key=60, versions="0-1", flexible="0+")
class DescribeClusterRequest:
    """The request of DescribeCluster."""

    include_cluster_authorized_operations: boolean = field()
    endpoint_type: i8 = field("1+", default=1)


@struct
class DescribeClusterResponseBroker:
    """Part of DescribeClusterResponse."""

    broker_id: i32 = field()
    host: string = field()
    port: i32 = field()
    rack: string | None = field(nullable="0+", default=None)


@message(api_key=60, versions="0-1", flexible="0+")
class DescribeClusterResponse:
    """The response of DescribeCluster."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    error_code: i16 = field()
    error_message: string | None = field(nullable="0+", default=None)
    endpoint_type: i8 = field("1+", default=1)
    cluster_id: string = field()
    controller_id: i32 = field(default=-1)
    brokers: list[DescribeClusterResponseBroker] = field()
    cluster_authorized_operations: i32 = field(default=-2147483648)
