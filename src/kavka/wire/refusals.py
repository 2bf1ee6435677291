"""Responses that refuse a request: what a broker answers when everything in it meets one error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartition,
    AddPartitionsToTxnResponseTopic,
)
from kavka.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponsePartition,
    AlterReplicaLogDirsResponseTopic,
)
from kavka.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseResult,
)
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
)
from kavka.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)
from kavka.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from kavka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kavka.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from kavka.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from kavka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from kavka.wire.schema import Field, ListOf, fields_of


def can_be_refused(key: ApiKey) -> bool:
    """Return whether `refusal` has a response for requests of an API."""
    request: Any = APIS[key].request()
    response: Any = APIS[key].response()
    if key in _BY_ITEM or _has_code(response):
        return True
    return _first_list(request) is not None and _first_list(response) is not None


def refusal(key: ApiKey, request: Any, code: ErrorCode) -> Any:
    """Return the response to a request in which everything meets one error."""
    refuse = _BY_ITEM.get(key)
    if refuse is not None:
        return refuse(request, code)
    kind: Any = APIS[key].response()
    if _has_code(kind):
        return kind(error_code=code)
    response = kind()
    rows_of, below = _first_list(kind), _first_list(type(request))
    assert rows_of is not None, f"{key.name} has no error code"
    assert below is not None, f"{key.name} has no items"
    row = _item_of(rows_of)
    setattr(response, rows_of.name, [_row(row, one, code) for one in getattr(request, below.name)])
    return response


def _has_code(kind: type) -> bool:
    return any(field.name == "error_code" for field in fields_of(kind))


def _first_list(kind: type) -> Field | None:
    return next((field for field in fields_of(kind) if isinstance(field.type, ListOf)), None)


def _item_of(field: Field) -> Any:
    assert isinstance(field.type, ListOf)
    return field.type.item


def _row(kind: Any, asked: Any, code: ErrorCode) -> Any:
    """Return the row of a response that stands for an item of a request: its names, the error, and the rows below.

    An item without fields, a group's name say, is what the row has first behind its error.
    """
    fields = fields_of(kind)
    has_code = _has_code(kind)
    if isinstance(asked, int | str | bytes):
        first = next(field.name for field in fields if not field.name.startswith("error_"))
        return kind(**{first: asked}, error_code=code)
    given: dict[str, Any] = {"error_code": code} if has_code else {}
    for field in fields:
        if not isinstance(field.type, ListOf):
            if hasattr(asked, field.name):
                given[field.name] = getattr(asked, field.name)
        elif hasattr(asked, field.name) or not has_code:
            below = _first_list(type(asked))
            if below is not None:
                rows = getattr(asked, below.name)
                given[field.name] = [_row(_item_of(field), one, code) for one in rows]
    return kind(**given)


def _init_producer_id(_request: InitProducerIdRequest, code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _join_group(_request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name="")


def _delete_topics(request: DeleteTopicsRequest, code: ErrorCode) -> DeleteTopicsResponse:
    named = [(topic.name, topic.topic_id) for topic in request.topics]
    return DeleteTopicsResponse(
        responses=[
            DeleteTopicsResponseTopic(name=name, topic_id=topic_id, error_code=code)
            for name, topic_id in [*named, *((name, NO_TOPIC_ID) for name in request.topic_names)]
        ]
    )


def _metadata(request: MetadataRequest, code: ErrorCode) -> MetadataResponse:
    """Refuse topics; `brokers` is for the caller to fill: clients go by them."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id, error_code=code)
            for topic in request.topics or ()
        ]
    )


def _produce(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            ProduceResponseTopic(
                name=topic.name,
                partition_responses=[
                    ProduceResponsePartition(index=row.index, error_code=code, base_offset=-1)
                    for row in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(request: FetchRequest, code: ErrorCode) -> FetchResponse:
    if code.name.startswith(("FETCH_SESSION", "INVALID_FETCH_SESSION")):
        return FetchResponse(error_code=code)
    return FetchResponse(
        responses=[
            FetchResponseTopic(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    FetchResponsePartition(
                        partition_index=row.partition,
                        error_code=code,
                        high_watermark=-1,
                        records=b"",
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _list_offsets(request: ListOffsetsRequest, code: ErrorCode) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponseTopic(
                name=topic.name,
                partitions=[
                    ListOffsetsResponsePartition(
                        partition_index=row.partition_index, error_code=code
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _find_coordinator(request: FindCoordinatorRequest, code: ErrorCode) -> FindCoordinatorResponse:
    if not request.coordinator_keys:
        return FindCoordinatorResponse(error_code=code, node_id=-1, port=-1)
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponseCoordinator(key=name, node_id=-1, port=-1, error_code=code)
            for name in request.coordinator_keys
        ],
    )


def _offset_fetch(request: OffsetFetchRequest, code: ErrorCode) -> OffsetFetchResponse:
    if not request.groups:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
            for group in request.groups
        ],
    )


def _add_partitions(
    request: AddPartitionsToTxnRequest, code: ErrorCode
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        error_code=code,  # from version 4 on, those of brokers
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnResponseTopic(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnResponsePartition(
                        partition_index=partition, partition_error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ],
    )


def _create_topics(request: CreateTopicsRequest, code: ErrorCode) -> CreateTopicsResponse:
    topics = [
        CreateTopicsResponseTopic(name=topic.name, error_code=code) for topic in request.topics
    ]
    return CreateTopicsResponse(topics=topics)


def _alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, code: ErrorCode
) -> AlterReplicaLogDirsResponse:
    results = [
        AlterReplicaLogDirsResponseTopic(
            topic_name=topic.name,
            partitions=[
                AlterReplicaLogDirsResponsePartition(partition_index=index, error_code=code)
                for index in topic.partitions
            ],
        )
        for asked in request.dirs
        for topic in asked.topics
    ]
    return AlterReplicaLogDirsResponse(results=results)


def _alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, code: ErrorCode
) -> AlterUserScramCredentialsResponse:
    names = [asked.name for asked in request.deletions]
    users = dict.fromkeys([*names, *(asked.name for asked in request.upsertions)])
    results = [
        AlterUserScramCredentialsResponseResult(user=user, error_code=code) for user in users
    ]
    return AlterUserScramCredentialsResponse(results=results)


_BY_ITEM: dict[ApiKey, Callable[[Any, ErrorCode], Any]] = {
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.METADATA: _metadata,
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
}
