"""Requests that are refused as a whole, by the needs of their API, and the responses that refuse them.

The response is that of Kafka's `getErrorResponse`: one error code, or one for each item of the request. Items may be
many, so their rows are made in slices of the loop's time.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import SecondStage
from kavka.broker.requests.policies import Refusal, refuse_whole
from kavka.broker.security.api_table import NEEDS, Need
from kavka.errors import ErrorCode
from kavka.wire.apis import ApiKey

_WHOLE: Final = {
    key: tuple(need for need in needs if need.name_of is not None) for key, needs in NEEDS.items()
}
"""The needs of requests as a whole."""

Refuse = Callable[[RequestContext, Any, ErrorCode], Any]


def refusal_of(key: ApiKey) -> Refusal | None:
    """Return what refuses requests of an API whose client may not send them; None where each may be sent."""
    needs = _WHOLE.get(key)
    if needs is None:
        return _refuse_unknown
    return partial(_refuse_unmet, needs) if needs else None


def _refuse_unknown(context: RequestContext, _request: Any) -> Any:
    """Refuse any request of an API of which the table says nothing."""
    return refuse_whole(context, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _refuse_unmet(needs: tuple[Need, ...], context: RequestContext, request: Any) -> Any:
    """Return the response for the first need that is not met; None when all are."""
    for need in needs:
        assert need.name_of is not None
        name = need.name_of(request, context.version)
        if name is not None and not _is_met(context, need, name):
            refuse = _REFUSE.get(context.api.key)
            if refuse is not None:
                return refuse(context, request, need.error)
            return refuse_whole(context, need.error)
    return None


def _is_met(context: RequestContext, need: Need, name: str) -> bool:
    if need.instead is not None and context.allows(
        need.instead, need.resource, name, is_asked=False
    ):
        return True
    if need.any_of is None:
        return context.allows(need.operation, need.resource, name)
    if context.allows(need.operation, need.resource, name, is_asked=False):
        return True
    # Asked again, so that what was refused is in the audit.
    return context.allows_any(*need.any_of) or context.allows(need.operation, need.resource, name)


# -- responses with one error code, and more that has no default


def _join_group(context: RequestContext, _request: Any, code: ErrorCode) -> Any:
    name = None if context.version >= 7 else ""
    return context.api.response(error_code=code, protocol_name=name)


def _init_producer_id(context: RequestContext, _request: Any, code: ErrorCode) -> Any:
    return context.api.response(error_code=code, producer_id=-1, producer_epoch=-1)


def _with_message(context: RequestContext, _request: Any, code: ErrorCode) -> Any:
    return context.api.response(error_code=code, error_message=code.message)


def _describe_client_quotas(context: RequestContext, _request: Any, code: ErrorCode) -> Any:
    return context.api.response(error_code=code, error_message=code.message, entries=None)


# -- responses with rows


def _in_slices(rows: Callable[..., Coroutine[Any, Any, Any]]) -> Refuse:
    def refuse(context: RequestContext, request: Any, code: ErrorCode) -> SecondStage:
        return SecondStage(rows(context, request, code))

    return refuse


async def _step(context: RequestContext) -> None:
    if context.pace.is_over():
        await context.pace.rest()


async def _offset_commit(context: RequestContext, request: Any, code: ErrorCode) -> Any:
    """Refuse OffsetCommit or TxnOffsetCommit: their rows look alike."""
    if context.api.key is ApiKey.OFFSET_COMMIT:
        from kavka.wire.messages import offset_commit as commit

        topic_class: Any = commit.OffsetCommitResponseTopic
        row_class: Any = commit.OffsetCommitResponsePartition
    else:
        from kavka.wire.messages import txn_offset_commit as txn_commit

        topic_class = txn_commit.TxnOffsetCommitResponseTopic
        row_class = txn_commit.TxnOffsetCommitResponsePartition
    response = context.api.response()
    for asked in request.topics:
        topic = topic_class(name=asked.name)
        response.topics.append(topic)
        for row in asked.partitions:
            topic.partitions.append(row_class(partition_index=row.partition_index, error_code=code))
            await _step(context)
    return response


async def _add_partitions(context: RequestContext, request: Any, code: ErrorCode) -> Any:
    from kavka.wire.messages.add_partitions_to_txn import (
        AddPartitionsToTxnResponsePartition,
        AddPartitionsToTxnResponseTopic,
    )

    if context.version >= 4:
        return context.api.response(error_code=code)
    response = context.api.response()
    for asked in request.v3_and_below_topics:
        topic = AddPartitionsToTxnResponseTopic(name=asked.name)
        response.results_by_topic_v3_and_below.append(topic)
        for index in asked.partitions:
            topic.results_by_partition.append(
                AddPartitionsToTxnResponsePartition(
                    partition_index=index, partition_error_code=code
                )
            )
            await _step(context)
    return response


async def _write_markers(context: RequestContext, request: Any, code: ErrorCode) -> Any:
    from kavka.wire.messages.write_txn_markers import (
        WriteTxnMarkersResponseMarker,
        WriteTxnMarkersResponsePartition,
        WriteTxnMarkersResponseTopic,
    )

    response = context.api.response()
    for asked in request.markers:
        marker = WriteTxnMarkersResponseMarker(producer_id=asked.producer_id)
        response.markers.append(marker)
        for named in asked.topics:
            topic = WriteTxnMarkersResponseTopic(name=named.name)
            marker.topics.append(topic)
            for index in named.partition_indexes:
                topic.partitions.append(
                    WriteTxnMarkersResponsePartition(partition_index=index, error_code=code)
                )
                await _step(context)
    return response


async def _create_acls(context: RequestContext, request: Any, code: ErrorCode) -> Any:
    from kavka.wire.messages.create_acls import CreateAclsResponseResult

    row = CreateAclsResponseResult(error_code=code, error_message=code.message)
    return context.api.response(results=[row] * len(request.creations))


async def _delete_acls(context: RequestContext, request: Any, code: ErrorCode) -> Any:
    from kavka.wire.messages.delete_acls import DeleteAclsResponseFilterResult

    row = DeleteAclsResponseFilterResult(error_code=code, error_message=code.message)
    return context.api.response(filter_results=[row] * len(request.filters))


async def _alter_replica_log_dirs(context: RequestContext, request: Any, code: ErrorCode) -> Any:
    from kavka.wire.messages.alter_replica_log_dirs import (
        AlterReplicaLogDirsResponsePartition,
        AlterReplicaLogDirsResponseTopic,
    )

    topics: dict[str, Any] = {}
    for asked in request.dirs:
        for named in asked.topics:
            topic = topics.get(named.name)
            if topic is None:
                topic = topics[named.name] = AlterReplicaLogDirsResponseTopic(topic_name=named.name)
            for index in named.partitions:
                row = AlterReplicaLogDirsResponsePartition(partition_index=index, error_code=code)
                topic.partitions.append(row)
                await _step(context)
    return context.api.response(results=list(topics.values()))


async def _elect_leaders(context: RequestContext, request: Any, code: ErrorCode) -> Any:
    from kavka.wire.messages.elect_leaders import (
        ElectLeadersResponsePartition,
        ElectLeadersResponseTopic,
    )

    response = context.api.response()
    if context.version > 0:
        response.error_code = code
    for asked in request.topic_partitions or ():
        topic = ElectLeadersResponseTopic(topic=asked.topic)
        response.replica_election_results.append(topic)
        for index in asked.partitions:
            row = ElectLeadersResponsePartition(
                partition_id=index, error_code=code, error_message=code.message
            )
            topic.partition_result.append(row)
            await _step(context)
    return response


async def _alter_reassignments(context: RequestContext, request: Any, code: ErrorCode) -> Any:
    from kavka.wire.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsResponsePartition,
        AlterPartitionReassignmentsResponseTopic,
    )

    response = context.api.response(error_code=code, error_message=code.message)
    for asked in request.topics:
        topic = AlterPartitionReassignmentsResponseTopic(name=asked.name)
        response.responses.append(topic)
        for partition in asked.partitions:
            row = AlterPartitionReassignmentsResponsePartition(
                partition_index=partition.partition_index,
                error_code=code,
                error_message=code.message,
            )
            topic.partitions.append(row)
            await _step(context)
    return response


async def _alter_quotas(context: RequestContext, request: Any, code: ErrorCode) -> Any:
    from kavka.wire.messages.alter_client_quotas import (
        AlterClientQuotasResponseEntity,
        AlterClientQuotasResponseEntry,
    )

    response = context.api.response()
    for asked in request.entries:
        entry = AlterClientQuotasResponseEntry(error_code=code, error_message=code.message)
        response.entries.append(entry)
        for part in asked.entity:
            entry.entity.append(
                AlterClientQuotasResponseEntity(
                    entity_type=part.entity_type, entity_name=part.entity_name
                )
            )
            await _step(context)
    return response


async def _alter_credentials(context: RequestContext, request: Any, code: ErrorCode) -> Any:
    from kavka.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsResponseResult,
    )

    response = context.api.response()
    users: dict[str, None] = {}
    for asked in (*request.deletions, *request.upsertions):
        users[asked.name] = None
        await _step(context)
    await _refuse_users(context, code, response, AlterUserScramCredentialsResponseResult, users)
    return response


async def _describe_credentials(context: RequestContext, request: Any, code: ErrorCode) -> Any:
    from kavka.wire.messages.describe_user_scram_credentials import (
        DescribeUserScramCredentialsResponseResult,
    )

    response = context.api.response(error_code=code, error_message=code.message)
    users = (asked.name for asked in request.users or ())
    await _refuse_users(context, code, response, DescribeUserScramCredentialsResponseResult, users)
    return response


async def _refuse_users(
    context: RequestContext,
    code: ErrorCode,
    response: Any,
    result: Callable[..., Any],
    users: Iterable[str],
) -> None:
    """Add a result with an error for each user."""
    for user in users:
        row = result(user=user, error_code=code, error_message=code.message)
        response.results.append(row)
        await _step(context)


_REFUSE: Final[dict[ApiKey, Refuse]] = {
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.DESCRIBE_ACLS: _with_message,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _with_message,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _in_slices(_describe_credentials),
    ApiKey.UPDATE_FEATURES: _with_message,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe_client_quotas,
    ApiKey.OFFSET_COMMIT: _in_slices(_offset_commit),
    ApiKey.TXN_OFFSET_COMMIT: _in_slices(_offset_commit),
    ApiKey.ADD_PARTITIONS_TO_TXN: _in_slices(_add_partitions),
    ApiKey.WRITE_TXN_MARKERS: _in_slices(_write_markers),
    ApiKey.CREATE_ACLS: _in_slices(_create_acls),
    ApiKey.DELETE_ACLS: _in_slices(_delete_acls),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _in_slices(_alter_replica_log_dirs),
    ApiKey.ELECT_LEADERS: _in_slices(_elect_leaders),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _in_slices(_alter_reassignments),
    ApiKey.ALTER_CLIENT_QUOTAS: _in_slices(_alter_quotas),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _in_slices(_alter_credentials),
}
