"""Authorized operations of a client, as Metadata, DescribeCluster and DescribeGroups return them.

They are a bit field: bit n stands for ACL operation n (KIP-430). Without an authorizer everything is allowed, and
responses say so.
"""

from __future__ import annotations

from collections.abc import Iterable

from kavka.broker.requests.context import RequestContext
from kavka.core.access.names import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclOperation,
    AclResourceType,
)


def _bits(operations: Iterable[AclOperation]) -> int:
    return sum(1 << operation for operation in operations)


_ALL = {kind: _bits(operations) for kind, operations in SUPPORTED_OPERATIONS.items()}


def _operations(context: RequestContext, kind: AclResourceType, name: str) -> int:
    if context.authorizer is None:
        return _ALL[kind]
    operations = SUPPORTED_OPERATIONS[kind]
    return _bits(o for o in operations if context.allows(o, kind, name, is_asked=False))


def cluster_operations(context: RequestContext) -> int:
    """Return the operations on the cluster that the client may use; none if it may not describe the cluster."""
    kind = AclResourceType.CLUSTER
    if not context.allows(AclOperation.DESCRIBE, kind, CLUSTER_NAME):
        return 0
    return _operations(context, kind, CLUSTER_NAME)


def topic_operations(context: RequestContext, topic: str) -> int:
    """Return the operations on a topic that the client may use."""
    return _operations(context, AclResourceType.TOPIC, topic)


def group_operations(context: RequestContext, group_id: str) -> int:
    """Return the operations on a group that the client may use."""
    return _operations(context, AclResourceType.GROUP, group_id)
