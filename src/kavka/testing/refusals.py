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
from kavka.wire.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
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
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
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
from kavka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kavka.wire.schema import fields_of


def can_be_refused(key: ApiKey) -> bool:
    """Return whether `refusal` has a response for requests of an API."""
    kind: Any = APIS[key].response()
    return key in _BY_ITEM or any(field.name == "error_code" for field in fields_of(kind))


def refusal(key: ApiKey, request: Any, code: ErrorCode) -> Any:
    """Return the response to a request; of an API that is not listed, one with an error code of its own."""
    refuse = _BY_ITEM.get(key)
    if refuse is not None:
        return refuse(request, code)
    assert can_be_refused(key), f"{key.name} has none"
    kind: Any = APIS[key].response()
    return kind(error_code=code)


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


def _offset_commit(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=row.partition_index, error_code=code
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
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


def _txn_offset_commit(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=row.partition_index, error_code=code
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _add_partitions(
    request: AddPartitionsToTxnRequest, code: ErrorCode
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
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
        ]
    )


def _create_topics(request: CreateTopicsRequest, code: ErrorCode) -> CreateTopicsResponse:
    topics = [
        CreateTopicsResponseTopic(name=topic.name, error_code=code) for topic in request.topics
    ]
    return CreateTopicsResponse(topics=topics)


def _describe_groups(request: DescribeGroupsRequest, code: ErrorCode) -> DescribeGroupsResponse:
    groups = [
        DescribeGroupsResponseGroup(group_id=group, error_code=code) for group in request.groups
    ]
    return DescribeGroupsResponse(groups=groups)


_BY_ITEM: dict[ApiKey, Callable[[Any, ErrorCode], Any]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.METADATA: _metadata,
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
}
