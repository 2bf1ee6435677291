"""TxnOffsetCommit: the offsets up to which a group has read if the transaction commits (KIP-98, KIP-447, KIP-890)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kavka.broker.api.offset_commit import commit_offsets
from kavka.broker.lazy import Lazy
from kavka.broker.metadata.cache import OFFSETS_TOPIC, MetadataCache
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.partition_codes import Codes
from kavka.core.group.events import CommitOffsetsInTransaction, OffsetToCommit
from kavka.errors import ErrorCode
from kavka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from kavka.broker.coordination.group_coordinators import GroupCoordinators
    from kavka.broker.coordination.verification import Verifier


_FIRST_WITH_LOADING_ERROR = 2
_FIRST_WITH_TRANSACTION_ABORTABLE = 4
_FIRST_ADDING_PARTITIONS = 5
_UNVERIFIED = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
)
"""Errors of the transaction coordinator after which the client must ask the same group coordinator again."""


async def handle(
    metadata: MetadataCache,
    replica_manager: ReplicaManager,
    groups: GroupCoordinators,
    verifier: Lazy[Verifier],
    context: RequestContext,
    request: TxnOffsetCommitRequest,
) -> TxnOffsetCommitResponse:
    """Commit what is asked for partitions that exist; the others get UNKNOWN_TOPIC_OR_PARTITION.

    Repetitions and many offsets are treated as in OffsetCommit. Each batch is verified by itself: the transaction may
    end between two of them.
    """
    topics = await commit_offsets(
        metadata,
        context,
        request.topics,
        partial(_commit, replica_manager, groups, verifier, context.version, request),
        TxnOffsetCommitResponseTopic,
        TxnOffsetCommitResponsePartition,
    )
    return TxnOffsetCommitResponse(topics=topics)


async def _commit(
    replica_manager: ReplicaManager,
    groups: GroupCoordinators,
    verifier: Lazy[Verifier],
    version: int,
    request: TxnOffsetCommitRequest,
    wanted: tuple[OffsetToCommit, ...],
) -> Codes:
    code = await _verify(replica_manager, groups, verifier, version, request)
    if code is ErrorCode.NONE:
        # In the iteration of the loop in which it was verified: no marker can come in between.
        reply = await groups.submit(
            request.group_id,
            lambda token: CommitOffsetsInTransaction(
                token,
                request.group_id,
                request.producer_id,
                request.producer_epoch,
                request.generation_id,
                request.member_id,
                request.group_instance_id,
                wanted,
            ),
        )
        if not isinstance(reply, ErrorCode):
            return {(t, p): _code_for_version(code, version) for t, p, code in reply.partitions}
        code = reply
    return {(offset.topic, offset.partition): _code_for_version(code, version) for offset in wanted}


async def _verify(
    replica_manager: ReplicaManager,
    groups: GroupCoordinators,
    verifier: Lazy[Verifier],
    version: int,
    request: TxnOffsetCommitRequest,
) -> ErrorCode:
    """Return NONE when the group's partition of the offsets topic takes part in the transaction."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    shard = groups.shard_of(request.group_id)
    if isinstance(shard, ErrorCode):
        return shard
    if shard.machine.is_loading:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    topic_partition = groups.partition_of(request.group_id)
    assert topic_partition is not None, f"{OFFSETS_TOPIC} has shards"
    replica = replica_manager.find(topic_partition)
    if isinstance(replica, ErrorCode):
        return ErrorCode.NOT_COORDINATOR
    code = await verifier.get().verify(
        replica,
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        adds=version >= _FIRST_ADDING_PARTITIONS,
    )
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if code in _UNVERIFIED else code


def _code_for_version(code: ErrorCode, version: int) -> ErrorCode:
    """Return the code that this version has for it."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_WITH_TRANSACTION_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _FIRST_WITH_LOADING_ERROR:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE  # KAFKA-7296: it would end the producer
    return code
