"""DescribeCluster: the live brokers, with their addresses on the client's listener."""

from __future__ import annotations

from kavka.broker.metadata.cache import MetadataCache
from kavka.broker.requests.authorized_operations import cluster_operations
from kavka.broker.requests.context import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
)

_BROKERS = 1
_CONTROLLERS = 2


def handle(
    metadata: MetadataCache, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Answer for brokers; this cluster has no separate controllers to ask for (KIP-919)."""
    if request.endpoint_type != _BROKERS:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        if request.endpoint_type == _CONTROLLERS:
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        return DescribeClusterResponse(
            error_code=code,
            error_message="The request was sent to an endpoint of the wrong type: this is a broker.",
            endpoint_type=_BROKERS,
        )
    response = DescribeClusterResponse(
        endpoint_type=_BROKERS,
        cluster_id=metadata.cluster_id,
        controller_id=metadata.controller_id,
        brokers=[
            DescribeClusterResponseBroker(
                broker_id=live.broker_id, host=endpoint.host, port=endpoint.port, rack=live.rack
            )
            for live, endpoint in metadata.brokers_on_listener(context.listener_name)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response
