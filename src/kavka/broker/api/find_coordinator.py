"""FindCoordinator: which broker coordinates a group, or a transactional id; the first question creates their topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.lazy import Lazy
from kavka.broker.metadata.cache import MetadataCache
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Slices
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.errors import ErrorCode
from kavka.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)

if TYPE_CHECKING:
    from kavka.broker.coordination.group_coordinators import GroupCoordinators
    from kavka.broker.coordination.transaction_coordinators import TransactionCoordinators


_GROUP = 0
_TRANSACTION = 1
_FIRST_BATCHED = 4


async def handle(
    slices: Slices,
    metadata: MetadataCache,
    groups: Lazy[GroupCoordinators],
    transactions: Lazy[TransactionCoordinators],
    context: RequestContext,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse:
    """Answer one key, or many from version 4 on."""
    if context.version < _FIRST_BATCHED:
        one = await _find(metadata, groups, transactions, context, request.key_type, request.key)
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    pace = slices.pace()
    found: dict[str, FindCoordinatorResponseCoordinator] = {}
    found_all = []
    for key in request.coordinator_keys:
        if key not in found:
            found[key] = await _find(metadata, groups, transactions, context, request.key_type, key)
        found_all.append(found[key])
        if pace.is_over():
            await pace.rest()
    return FindCoordinatorResponse(coordinators=found_all)


def _refusal(context: RequestContext, key_type: int, key: str) -> ErrorCode | None:
    kind, error = {
        _GROUP: (AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        _TRANSACTION: (
            AclResourceType.TRANSACTIONAL_ID,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    }.get(key_type, (None, None))
    if kind is None or context.allows(AclOperation.DESCRIBE, kind, key):
        return None
    return error


async def _find(
    metadata: MetadataCache,
    groups: Lazy[GroupCoordinators],
    transactions: Lazy[TransactionCoordinators],
    context: RequestContext,
    key_type: int,
    key: str,
) -> FindCoordinatorResponseCoordinator:
    result = FindCoordinatorResponseCoordinator(key=key, node_id=-1, host="", port=-1)
    refused = _refusal(context, key_type, key)
    if refused is not None:
        result.error_code, result.error_message = refused, refused.message
        return result
    if key_type == _GROUP:
        leader = await groups.get().leader_of(key)
    elif key_type == _TRANSACTION:
        leader = await transactions.get().leader_of(key)
    else:
        result.error_code = ErrorCode.INVALID_REQUEST
        result.error_message = f"Unknown coordinator key type {key_type}"
        return result
    live = None if isinstance(leader, ErrorCode) else metadata.brokers.get(leader)
    endpoint = None if live is None else live.endpoint(context.listener_name)
    if live is None or endpoint is None:
        code = leader if isinstance(leader, ErrorCode) else ErrorCode.COORDINATOR_NOT_AVAILABLE
        result.error_code, result.error_message = code, code.message
        return result
    result.node_id, result.host, result.port = live.broker_id, endpoint.host, endpoint.port
    return result
