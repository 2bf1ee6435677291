"""Requests of each API about topic `t`, group `g` and transactional id `x`, and the errors in their responses.

Each is such that nothing but access decides about its items: what is named exists, or the error without access comes
first. They are sent to Apache Kafka's brokers, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kavka.errors import ErrorCode
from kavka.ids import TopicId
from kavka.wire.apis import ApiKey
from kavka.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
)
from kavka.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kavka.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
)
from kavka.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
)
from kavka.wire.messages.alter_partition import AlterPartitionRequest
from kavka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
)
from kavka.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequestDir,
    AlterReplicaLogDirsRequestTopic,
)
from kavka.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialDeletion,
)
from kavka.wire.messages.api_versions import ApiVersionsRequest
from kavka.wire.messages.controlled_shutdown import ControlledShutdownRequest
from kavka.wire.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation
from kavka.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from kavka.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from kavka.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from kavka.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestFilter
from kavka.wire.messages.delete_groups import DeleteGroupsRequest
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from kavka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from kavka.wire.messages.describe_acls import DescribeAclsRequest
from kavka.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from kavka.wire.messages.describe_cluster import DescribeClusterRequest
from kavka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from kavka.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kavka.wire.messages.describe_groups import DescribeGroupsRequest
from kavka.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from kavka.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
)
from kavka.wire.messages.describe_transactions import DescribeTransactionsRequest
from kavka.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUserName,
)
from kavka.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersRequestTopic
from kavka.wire.messages.end_txn import EndTxnRequest
from kavka.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestReplicaState,
    FetchRequestTopic,
)
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.heartbeat import HeartbeatRequest
from kavka.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kavka.wire.messages.leader_and_isr import LeaderAndIsrRequest
from kavka.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from kavka.wire.messages.list_groups import ListGroupsRequest
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from kavka.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kavka.wire.messages.list_transactions import ListTransactionsRequest
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kavka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
)
from kavka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from kavka.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from kavka.wire.messages.stop_replica import StopReplicaRequest
from kavka.wire.messages.sync_group import SyncGroupRequest
from kavka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kavka.wire.messages.update_features import UpdateFeaturesRequest
from kavka.wire.messages.update_metadata import UpdateMetadataRequest
from kavka.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
)
from kavka.wire.schema import fields_of
from support.produce import batch, produce_request

TOPIC, GROUP, TRANSACTIONAL_ID = "t", "g", "x"
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4

DENIALS = frozenset(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    )
)


def _of_records(key: ApiKey, version: int, topic_id: bytes) -> list[Any]:
    match key:
        case ApiKey.PRODUCE:
            plain = produce_request(TOPIC, [(0, batch(b"v"))], timeout_ms=1000)
            if version < 3:
                return [plain]
            records = batch(
                b"v", producer_id=4711, producer_epoch=0, base_sequence=0, transactional=True
            )
            named = {"transactional_id": TRANSACTIONAL_ID, "timeout_ms": 1000}
            return [plain, produce_request(TOPIC, [(0, records)], **named)]
        case ApiKey.FETCH:
            part = FetchRequestPartition(fetch_offset=0, partition_max_bytes=1000)
            name = {"topic": TOPIC} if version < 13 else {"topic_id": TopicId(topic_id)}
            topics = [FetchRequestTopic(partitions=[part], **name)]
            of_consumer = FetchRequest(min_bytes=0, max_bytes=1000, topics=topics)
            of_follower = FetchRequest(min_bytes=0, max_bytes=1000, topics=topics)
            if version < 15:
                of_follower.replica_id = 9
            else:
                of_follower.replica_state = FetchRequestReplicaState(replica_id=9)
            return [of_consumer, of_follower]
        case ApiKey.LIST_OFFSETS:
            offsets = ListOffsetsRequestPartition(timestamp=-1)
            topic = ListOffsetsRequestTopic(name=TOPIC, partitions=[offsets])
            return [ListOffsetsRequest(replica_id=-1, topics=[topic])]
        case ApiKey.METADATA:
            asked = [MetadataRequestTopic(name=TOPIC), MetadataRequestTopic(name="new-one")]
            return [MetadataRequest(topics=asked)]
        case ApiKey.OFFSET_FOR_LEADER_EPOCH:
            epoch = OffsetForLeaderEpochRequestPartition(leader_epoch=0)
            of_topic = OffsetForLeaderEpochRequestTopic(topic=TOPIC, partitions=[epoch])
            return [OffsetForLeaderEpochRequest(topics=[of_topic])]
        case ApiKey.DELETE_RECORDS:
            gone = DeleteRecordsRequestTopic(
                name=TOPIC, partitions=[DeleteRecordsRequestPartition(offset=0)]
            )
            return [DeleteRecordsRequest(topics=[gone], timeout_ms=1000)]
        case ApiKey.API_VERSIONS:
            names = {"client_software_name": "test", "client_software_version": "1.0"}
            return [ApiVersionsRequest(**(names if version >= 3 else {}))]
    return []


def _of_groups(key: ApiKey, version: int, _topic_id: bytes) -> list[Any]:
    match key:
        case ApiKey.OFFSET_COMMIT:
            commit = OffsetCommitRequestPartition(committed_offset=1, committed_metadata="m")
            topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[commit])
            request = OffsetCommitRequest(group_id=GROUP, topics=[topic])
            request.generation_id_or_member_epoch = -1
            return [request]
        case ApiKey.OFFSET_FETCH:
            if version < 8:
                asked = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
                return [OffsetFetchRequest(group_id=GROUP, topics=[asked])]
            grouped = OffsetFetchRequestGroupTopic(name=TOPIC, partition_indexes=[0])
            group = OffsetFetchRequestGroup(group_id=GROUP, topics=[grouped])
            return [OffsetFetchRequest(groups=[group])]
        case ApiKey.FIND_COORDINATOR:
            if version < 1:
                return [FindCoordinatorRequest(key=GROUP)]
            if version < 4:
                return [
                    FindCoordinatorRequest(key=GROUP),
                    FindCoordinatorRequest(key=TRANSACTIONAL_ID, key_type=1),
                ]
            return [
                FindCoordinatorRequest(coordinator_keys=[GROUP]),
                FindCoordinatorRequest(coordinator_keys=[TRANSACTIONAL_ID], key_type=1),
            ]
        case ApiKey.JOIN_GROUP:  # refused for its timeout if it is let through: it does not wait
            protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0")
            join = JoinGroupRequest(
                group_id=GROUP, protocol_type="consumer", protocols=[protocol], session_timeout_ms=1
            )
            return [join]
        case ApiKey.SYNC_GROUP:
            sync = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="nonexistent")
            if version >= 5:
                sync.protocol_type, sync.protocol_name = "consumer", "range"
            return [sync]
        case ApiKey.HEARTBEAT:
            return [HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="nonexistent")]
        case ApiKey.LEAVE_GROUP:
            if version < 3:
                return [LeaveGroupRequest(group_id=GROUP, member_id="nonexistent")]
            member = LeaveGroupRequestMember(member_id="nonexistent")
            return [LeaveGroupRequest(group_id=GROUP, members=[member])]
        case ApiKey.DESCRIBE_GROUPS:
            return [DescribeGroupsRequest(groups=[GROUP])]
        case ApiKey.LIST_GROUPS:
            return [ListGroupsRequest()]
        case ApiKey.DELETE_GROUPS:
            return [DeleteGroupsRequest(groups_names=["nonexistent"])]
        case ApiKey.OFFSET_DELETE:
            deleted = OffsetDeleteRequestPartition(partition_index=0)
            of = OffsetDeleteRequestTopic(name=TOPIC, partitions=[deleted])
            return [OffsetDeleteRequest(group_id=GROUP, topics=[of])]
    return []


def _of_transactions(key: ApiKey, version: int, _topic_id: bytes) -> list[Any]:
    x = TRANSACTIONAL_ID
    match key:
        case ApiKey.INIT_PRODUCER_ID:
            return [
                InitProducerIdRequest(transaction_timeout_ms=1000),
                InitProducerIdRequest(transaction_timeout_ms=1000, transactional_id=x),
            ]
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            joining = [AddPartitionsToTxnRequestTopic(name=TOPIC, partitions=[0])]
            if version < 4:
                request = AddPartitionsToTxnRequest(v3_and_below_topics=joining)
                request.v3_and_below_transactional_id = x
                return [request]
            asked_for = AddPartitionsToTxnRequestTransaction(
                transactional_id=x, verify_only=True, topics=joining
            )
            return [AddPartitionsToTxnRequest(transactions=[asked_for])]
        case ApiKey.ADD_OFFSETS_TO_TXN:
            return [AddOffsetsToTxnRequest(transactional_id=x, group_id=GROUP)]
        case ApiKey.END_TXN:
            return [EndTxnRequest(transactional_id=x, committed=True)]
        case ApiKey.TXN_OFFSET_COMMIT:
            committed = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
            in_topic = TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[committed])
            request_ = TxnOffsetCommitRequest(
                transactional_id=x, group_id=GROUP, producer_id=7, topics=[in_topic]
            )
            return [request_]
        case ApiKey.WRITE_TXN_MARKERS:
            named = WriteTxnMarkersRequestTopic(name=TOPIC, partition_indexes=[0])
            return [WriteTxnMarkersRequest(markers=[WriteTxnMarkersRequestMarker(topics=[named])])]
        case ApiKey.DESCRIBE_PRODUCERS:
            one = DescribeProducersRequestTopic(name=TOPIC, partition_indexes=[0])
            return [DescribeProducersRequest(topics=[one])]
        case ApiKey.DESCRIBE_TRANSACTIONS:
            return [DescribeTransactionsRequest(transactional_ids=[x])]
        case ApiKey.LIST_TRANSACTIONS:
            return [ListTransactionsRequest()]
    return []


def _of_administration(key: ApiKey, version: int, topic_id: bytes) -> list[Any]:
    match key:
        case ApiKey.CREATE_TOPICS:  # only checked
            validate = version >= 1  # version 0 creates it
            name = "made" if validate else "made-old"
            created = CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1)
            return [CreateTopicsRequest(topics=[created], timeout_ms=1000, validate_only=validate)]
        case ApiKey.DELETE_TOPICS:
            if version < 6:
                return [DeleteTopicsRequest(topic_names=["nonexistent"], timeout_ms=1000)]
            by_name = DeleteTopicsRequestTopic(name="nonexistent")
            return [DeleteTopicsRequest(topics=[by_name], timeout_ms=1000)]
        case ApiKey.DESCRIBE_CONFIGS:
            return [
                DescribeConfigsRequest(
                    resources=[
                        DescribeConfigsRequestResource(
                            resource_type=kind, resource_name=name, configuration_keys=None
                        )
                    ]
                )
                for kind, name in ((_TOPIC_RESOURCE, TOPIC), (_BROKER_RESOURCE, ""))
            ]
        case ApiKey.DESCRIBE_LOG_DIRS:
            return [DescribeLogDirsRequest(topics=None)]
        case ApiKey.CREATE_PARTITIONS:
            grown = CreatePartitionsRequestTopic(name=TOPIC, count=1, assignments=None)
            return [CreatePartitionsRequest(topics=[grown], timeout_ms=1000)]
    return []


def _of_settings(key: ApiKey, _version: int, _topic_id: bytes) -> list[Any]:
    match key:
        case ApiKey.ALTER_CONFIGS:
            change = AlterConfigsRequestConfig(name="retention.ms", value="100000")
            of_broker = AlterConfigsRequestConfig(name="log.cleaner.threads", value="1")
            return [
                AlterConfigsRequest(
                    resources=[
                        AlterConfigsRequestResource(
                            resource_type=kind, resource_name=name, configs=[config]
                        )
                    ],
                    validate_only=True,
                )
                for kind, name, config in (
                    (_TOPIC_RESOURCE, TOPIC, change),
                    (_BROKER_RESOURCE, "", of_broker),
                )
            ]
        case ApiKey.INCREMENTAL_ALTER_CONFIGS:
            step = IncrementalAlterConfigsRequestConfig(name="retention.ms", value="100000")
            for_broker = IncrementalAlterConfigsRequestConfig(name="log.cleaner.threads", value="1")
            return [
                IncrementalAlterConfigsRequest(
                    resources=[
                        IncrementalAlterConfigsRequestResource(
                            resource_type=kind, resource_name=name, configs=[config]
                        )
                    ],
                    validate_only=True,
                )
                for kind, name, config in (
                    (_TOPIC_RESOURCE, TOPIC, step),
                    (_BROKER_RESOURCE, "", for_broker),
                )
            ]
    return []


def _of_cluster(key: ApiKey, _version: int, _topic_id: bytes) -> list[Any]:
    match key:
        case ApiKey.DESCRIBE_CLUSTER:
            return [DescribeClusterRequest()]
        case ApiKey.ALTER_REPLICA_LOG_DIRS:
            topic = AlterReplicaLogDirsRequestTopic(name=TOPIC, partitions=[0])
            to = AlterReplicaLogDirsRequestDir(path="/nonexistent", topics=[topic])
            return [AlterReplicaLogDirsRequest(dirs=[to])]
        case ApiKey.LEADER_AND_ISR:  # of a controller that was deposed
            return [LeaderAndIsrRequest(controller_id=9, controller_epoch=-2)]
        case ApiKey.STOP_REPLICA:
            return [StopReplicaRequest(controller_id=9, controller_epoch=-2)]
        case ApiKey.UPDATE_METADATA:
            return [UpdateMetadataRequest(controller_id=9, controller_epoch=-2)]
        case ApiKey.CONTROLLED_SHUTDOWN:  # of an unknown broker
            return [ControlledShutdownRequest(broker_id=9)]
        case ApiKey.ALTER_PARTITION:
            return [AlterPartitionRequest(broker_id=9)]
        case ApiKey.ALLOCATE_PRODUCER_IDS:
            return [AllocateProducerIdsRequest(broker_id=9)]
        case ApiKey.ELECT_LEADERS:
            elected = ElectLeadersRequestTopic(topic=TOPIC, partitions=[0])
            return [ElectLeadersRequest(topic_partitions=[elected], timeout_ms=1000)]
        case ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            cancelled = AlterPartitionReassignmentsRequestPartition(replicas=None)
            moved = AlterPartitionReassignmentsRequestTopic(name=TOPIC, partitions=[cancelled])
            return [AlterPartitionReassignmentsRequest(topics=[moved])]
        case ApiKey.LIST_PARTITION_REASSIGNMENTS:
            return [ListPartitionReassignmentsRequest(topics=None)]
        case ApiKey.UPDATE_FEATURES:
            return [UpdateFeaturesRequest()]
    return []


def _of_security(key: ApiKey, _version: int, _topic_id: bytes) -> list[Any]:
    match key:
        case ApiKey.DESCRIBE_ACLS:
            return [DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)]
        case ApiKey.CREATE_ACLS:
            creation = CreateAclsRequestCreation(
                resource_type=2,
                resource_name="other",
                principal="User:other",
                host="*",
                operation=3,
                permission_type=3,
            )
            return [CreateAclsRequest(creations=[creation])]
        case ApiKey.DELETE_ACLS:
            chosen = DeleteAclsRequestFilter(
                resource_type_filter=2,
                resource_name_filter="other",
                operation=1,
                permission_type=1,
            )
            return [DeleteAclsRequest(filters=[chosen])]
        case ApiKey.DESCRIBE_CLIENT_QUOTAS:
            return [DescribeClientQuotasRequest(components=[], strict=False)]
        case ApiKey.ALTER_CLIENT_QUOTAS:
            entity = AlterClientQuotasRequestEntity(entity_type="user", entity_name="other")
            entry = AlterClientQuotasRequestEntry(entity=[entity])
            return [AlterClientQuotasRequest(entries=[entry], validate_only=True)]
        case ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS:
            # Of all users, which are null, Apache Kafka fails to refuse a description: no response comes.
            named = DescribeUserScramCredentialsRequestUserName(name="other")
            return [DescribeUserScramCredentialsRequest(users=[named])]
        case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
            deletion = AlterUserScramCredentialsRequestScramCredentialDeletion(
                name="nonexistent", mechanism=1
            )
            return [AlterUserScramCredentialsRequest(deletions=[deletion])]
    return []


def _of_tokens(key: ApiKey, version: int, _topic_id: bytes) -> list[Any]:
    match key:
        case ApiKey.CREATE_DELEGATION_TOKEN:
            request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
            if version >= 3:  # for another user
                request.owner_principal_type, request.owner_principal_name = "User", "another"
            return [request]
        case ApiKey.RENEW_DELEGATION_TOKEN:
            return [RenewDelegationTokenRequest(hmac=b"nonexistent", renew_period_ms=-1)]
        case ApiKey.EXPIRE_DELEGATION_TOKEN:
            return [ExpireDelegationTokenRequest(hmac=b"nonexistent", expiry_time_period_ms=-1)]
        case ApiKey.DESCRIBE_DELEGATION_TOKEN:
            return [DescribeDelegationTokenRequest()]
    return []


_SOURCES = (
    _of_records,
    _of_groups,
    _of_transactions,
    _of_administration,
    _of_settings,
    _of_cluster,
    _of_security,
    _of_tokens,
)


def access_requests(key: ApiKey, version: int, topic_id: bytes) -> list[Any]:
    """Return requests that together meet each need of an API, in a version; none for an API that is not known."""
    for of in _SOURCES:
        requests = of(key, version, topic_id)
        if requests:
            return requests
    return []


def errors_in(message: Any) -> list[ErrorCode]:
    """Return the error codes in a response, in order."""
    return [ErrorCode.of(code) for code in _codes(message) if code]


def _codes(message: Any) -> Iterator[int]:
    message_class: type = type(message)
    for each in fields_of(message_class):
        value = getattr(message, each.name)
        if each.name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for item in value:
                if hasattr(type(item), "__slots__") and not isinstance(item, int | str | bytes):
                    yield from _codes(item)
