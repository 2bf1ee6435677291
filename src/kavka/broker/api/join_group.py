"""JoinGroup: a member enters a group, or comes back for the next generation."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.memory import check_count
from kavka.core.group.events import Join, JoinReply
from kavka.errors import ErrorCode
from kavka.io import Random
from kavka.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

if TYPE_CHECKING:
    from kavka.broker.coordination.group_coordinators import GroupCoordinators


_MAX_PROTOCOLS = 1000
"""Each is compared with those of all members; a client has a handful."""
_MAX_STEM_LENGTH = 8_000
"""Characters of a member id that come from the client: with four bytes each the id fits into a string."""


async def handle(
    random: Random, groups: GroupCoordinators, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse:
    """Ask the group's shard; it answers when the generation is complete."""
    check_count("JOIN_GROUP", "protocols", len(request.protocols), _MAX_PROTOCOLS)
    stem = (request.group_instance_id or context.client_id)[:_MAX_STEM_LENGTH]
    suffix = uuid.UUID(bytes=random.random_bytes(16), version=4)
    rebalance_ms = (
        request.session_timeout_ms if context.version == 0 else request.rebalance_timeout_ms
    )
    reply = await groups.submit(
        request.group_id,
        lambda token: Join(
            token,
            request.group_id,
            request.session_timeout_ms,
            rebalance_ms,
            request.member_id,
            request.group_instance_id,
            request.protocol_type,
            tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
            context.client_id,
            f"/{context.connection.peer_host}",
            f"{stem}-{suffix}",
            requires_known_member_id=context.version >= 4,
            supports_skipping_assignment=context.version >= 9,
        ),
    )
    if isinstance(reply, ErrorCode):
        reply = JoinReply(reply, request.member_id)
    return JoinGroupResponse(
        error_code=reply.error_code,
        generation_id=reply.generation_id,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name if context.version >= 7 else reply.protocol_name or "",
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata,
            )
            for member in reply.members
        ],
    )
