"""Every served API answers in every version that the broker advertises."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.broker.requests.served_apis import SUPPORTED_APIS
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
)
from kavka.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kavka.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
)
from kavka.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
)
from kavka.wire.messages.alter_partition import AlterPartitionRequest
from kavka.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kavka.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kavka.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kavka.wire.messages.api_versions import ApiVersionsRequest
from kavka.wire.messages.controlled_shutdown import ControlledShutdownRequest
from kavka.wire.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation
from kavka.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from kavka.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
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
from kavka.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kavka.wire.messages.elect_leaders import ElectLeadersRequest
from kavka.wire.messages.end_txn import EndTxnRequest
from kavka.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
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
from kavka.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kavka.wire.messages.sasl_handshake import SaslHandshakeRequest
from kavka.wire.messages.stop_replica import StopReplicaRequest
from kavka.wire.messages.sync_group import SyncGroupRequest
from kavka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kavka.wire.messages.update_features import UpdateFeaturesRequest
from kavka.wire.messages.update_metadata import UpdateMetadataRequest
from kavka.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from support.one_broker import Run, Served
from support.produce import batch, produce_request

TOPIC = 2


def _of_records(key: ApiKey, version: int, topic_id: bytes) -> Any:
    """Return a request about records and metadata, or None."""
    match key:
        case ApiKey.PRODUCE:
            return produce_request("t", [(0, batch(b"v", key=b"k"))], timeout_ms=1000)
        case ApiKey.FETCH:
            part = FetchRequestPartition(fetch_offset=0, partition_max_bytes=1000)
            name = {"topic": "t"} if version < 13 else {"topic_id": topic_id}
            topics = [FetchRequestTopic(partitions=[part], **name)]
            return FetchRequest(min_bytes=1, max_bytes=1000, topics=topics)
        case ApiKey.LIST_OFFSETS:
            offsets = ListOffsetsRequestPartition(timestamp=-1)
            return ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsRequestTopic(name="t", partitions=[offsets])]
            )
        case ApiKey.METADATA:
            return MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        case ApiKey.OFFSET_FOR_LEADER_EPOCH:
            epoch = OffsetForLeaderEpochRequestPartition(leader_epoch=0)
            of_topic = OffsetForLeaderEpochRequestTopic(topic="t", partitions=[epoch])
            return OffsetForLeaderEpochRequest(topics=[of_topic])
        case ApiKey.DELETE_RECORDS:
            records = DeleteRecordsRequestPartition(offset=0)
            gone = DeleteRecordsRequestTopic(name="t", partitions=[records])
            return DeleteRecordsRequest(topics=[gone], timeout_ms=1000)
        case ApiKey.SASL_HANDSHAKE:
            return SaslHandshakeRequest(mechanism="PLAIN")
        case ApiKey.SASL_AUTHENTICATE:
            return SaslAuthenticateRequest(auth_bytes=b"token")
        case ApiKey.API_VERSIONS:
            names = {"client_software_name": "test", "client_software_version": "1.0"}
            return ApiVersionsRequest(**(names if version >= 3 else {}))
    return None


def _of_groups(key: ApiKey, version: int, _topic_id: bytes) -> Any:
    """Return a request about groups, or None."""
    match key:
        case ApiKey.OFFSET_COMMIT:
            commit = OffsetCommitRequestPartition(committed_offset=1, committed_metadata="m")
            topic_ = OffsetCommitRequestTopic(name="t", partitions=[commit])
            return OffsetCommitRequest(
                group_id="g", generation_id_or_member_epoch=-1, topics=[topic_]
            )
        case ApiKey.OFFSET_FETCH:
            if version < 8:
                asked = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
                return OffsetFetchRequest(group_id="g", topics=[asked])
            grouped = OffsetFetchRequestGroupTopic(name="t", partition_indexes=[0])
            group = OffsetFetchRequestGroup(group_id="g", topics=[grouped])
            return OffsetFetchRequest(groups=[group])
        case ApiKey.FIND_COORDINATOR:
            if version < 4:
                return FindCoordinatorRequest(key="g")
            return FindCoordinatorRequest(coordinator_keys=["g"])
        case ApiKey.JOIN_GROUP:
            protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0")
            timeouts = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
            return JoinGroupRequest(
                group_id=f"g{version}",
                protocol_type="consumer",
                protocols=[protocol],
                **timeouts,  # type: ignore[arg-type]
            )
        case ApiKey.SYNC_GROUP:
            return SyncGroupRequest(group_id="g", generation_id=1, member_id="nonexistent")
        case ApiKey.HEARTBEAT:
            return HeartbeatRequest(group_id="g", generation_id=1, member_id="nonexistent")
        case ApiKey.LEAVE_GROUP:
            if version < 3:
                return LeaveGroupRequest(group_id="g", member_id="nonexistent")
            return LeaveGroupRequest(
                group_id="g", members=[LeaveGroupRequestMember(member_id="nonexistent")]
            )
        case ApiKey.DESCRIBE_GROUPS:
            return DescribeGroupsRequest(groups=["g"], include_authorized_operations=version >= 3)
        case ApiKey.LIST_GROUPS:
            return ListGroupsRequest(states_filter=["Empty"] if version >= 4 else [])
        case ApiKey.DELETE_GROUPS:
            return DeleteGroupsRequest(groups_names=["nonexistent"])
        case ApiKey.OFFSET_DELETE:
            deleted = OffsetDeleteRequestPartition(partition_index=0)
            of = OffsetDeleteRequestTopic(name="t", partitions=[deleted])
            return OffsetDeleteRequest(group_id="g", topics=[of])
    return None


def _of_transactions(key: ApiKey, version: int, _topic_id: bytes) -> Any:
    """Return a request about transactions, or None."""
    match key:
        case ApiKey.INIT_PRODUCER_ID:
            return InitProducerIdRequest(transaction_timeout_ms=1000)
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            joining = [AddPartitionsToTxnRequestTopic(name="t", partitions=[0])]
            if version < 4:
                return AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id="x", v3_and_below_topics=joining
                )
            asked_for = AddPartitionsToTxnRequestTransaction(
                transactional_id="x", verify_only=True, topics=joining
            )
            return AddPartitionsToTxnRequest(transactions=[asked_for])
        case ApiKey.ADD_OFFSETS_TO_TXN:
            return AddOffsetsToTxnRequest(transactional_id="x", group_id="g")
        case ApiKey.END_TXN:
            return EndTxnRequest(transactional_id="x", committed=True)
        case ApiKey.TXN_OFFSET_COMMIT:
            committed = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
            in_topic = TxnOffsetCommitRequestTopic(name="t", partitions=[committed])
            return TxnOffsetCommitRequest(
                transactional_id="x", group_id="g", producer_id=7, topics=[in_topic]
            )
        case ApiKey.WRITE_TXN_MARKERS:
            return WriteTxnMarkersRequest(markers=[])
        case ApiKey.DESCRIBE_PRODUCERS:
            one = DescribeProducersRequestTopic(name="t", partition_indexes=[0])
            return DescribeProducersRequest(topics=[one])
        case ApiKey.DESCRIBE_TRANSACTIONS:
            return DescribeTransactionsRequest(transactional_ids=["x"])
        case ApiKey.LIST_TRANSACTIONS:
            return ListTransactionsRequest(state_filters=["Ongoing"])
    return None


def _of_administration(key: ApiKey, version: int, topic_id: bytes) -> Any:
    """Return a request about topics and configs, or None."""
    match key:
        case ApiKey.CREATE_TOPICS:
            config = CreateTopicsRequestConfig(name="retention.ms", value="1000")
            created = CreateTopicsRequestTopic(
                name=f"made-{version}", num_partitions=1, replication_factor=1, configs=[config]
            )
            return CreateTopicsRequest(topics=[created], timeout_ms=1000)
        case ApiKey.DELETE_TOPICS:
            if version < 6:
                return DeleteTopicsRequest(topic_names=["nonexistent"], timeout_ms=1000)
            return DeleteTopicsRequest(
                topics=[DeleteTopicsRequestTopic(topic_id=bytes(15) + b"x")], timeout_ms=1000
            )
        case ApiKey.DESCRIBE_CONFIGS:
            asked_of = [
                DescribeConfigsRequestResource(
                    resource_type=kind, resource_name=name, configuration_keys=None
                )
                for kind, name in (
                    (TOPIC, "t"),
                    (4, "0"),
                    (4, ""),
                    (8, "0"),
                    (TOPIC, "nonexistent"),
                )
            ]
            return DescribeConfigsRequest(
                resources=asked_of,
                include_synonyms=version >= 1,
                include_documentation=version >= 3,
            )
        case ApiKey.ALTER_CONFIGS:
            change = AlterConfigsRequestConfig(name="retention.ms", value="1000")
            altered = AlterConfigsRequestResource(
                resource_type=TOPIC, resource_name="t", configs=[change]
            )
            return AlterConfigsRequest(resources=[altered])
        case ApiKey.DESCRIBE_LOG_DIRS:
            return DescribeLogDirsRequest(topics=None)
        case ApiKey.CREATE_PARTITIONS:
            grown = CreatePartitionsRequestTopic(name="t", count=1, assignments=None)
            return CreatePartitionsRequest(topics=[grown], timeout_ms=1000)
        case ApiKey.INCREMENTAL_ALTER_CONFIGS:
            step = IncrementalAlterConfigsRequestConfig(name="retention.ms", value="1000")
            stepped = IncrementalAlterConfigsRequestResource(
                resource_type=TOPIC, resource_name="t", configs=[step]
            )
            return IncrementalAlterConfigsRequest(resources=[stepped])
    return None


def _of_cluster(key: ApiKey, _version: int, _topic_id: bytes) -> Any:
    """Return a request about the cluster: brokers, controller, replicas, users, or None."""
    match key:
        case ApiKey.DESCRIBE_CLUSTER:
            return DescribeClusterRequest(include_cluster_authorized_operations=True)
        case ApiKey.ALTER_REPLICA_LOG_DIRS:
            return AlterReplicaLogDirsRequest()
        case ApiKey.LEADER_AND_ISR:  # of a controller that was deposed
            return LeaderAndIsrRequest(controller_id=9, controller_epoch=-2)
        case ApiKey.STOP_REPLICA:
            return StopReplicaRequest(controller_id=9, controller_epoch=-2)
        case ApiKey.UPDATE_METADATA:
            return UpdateMetadataRequest(controller_id=9, controller_epoch=-2)
        case ApiKey.CONTROLLED_SHUTDOWN:  # of an unknown broker
            return ControlledShutdownRequest(broker_id=9)
        case ApiKey.ALTER_PARTITION:
            return AlterPartitionRequest(broker_id=9)
        case ApiKey.ALLOCATE_PRODUCER_IDS:
            return AllocateProducerIdsRequest(broker_id=9)
        case ApiKey.ELECT_LEADERS:
            return ElectLeadersRequest(topic_partitions=None, timeout_ms=1000)
        case ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            return AlterPartitionReassignmentsRequest()
        case ApiKey.LIST_PARTITION_REASSIGNMENTS:
            return ListPartitionReassignmentsRequest(topics=None)
        case ApiKey.UPDATE_FEATURES:
            return UpdateFeaturesRequest()
        case ApiKey.DESCRIBE_ACLS:
            return DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
        case ApiKey.CREATE_ACLS:
            return CreateAclsRequest(creations=[CreateAclsRequestCreation()])
        case ApiKey.DELETE_ACLS:
            return DeleteAclsRequest(filters=[DeleteAclsRequestFilter()])
        case ApiKey.DESCRIBE_CLIENT_QUOTAS:
            return DescribeClientQuotasRequest(components=[], strict=False)
        case ApiKey.ALTER_CLIENT_QUOTAS:
            return AlterClientQuotasRequest(entries=[AlterClientQuotasRequestEntry()])
        case ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS:
            return DescribeUserScramCredentialsRequest()
        case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
            return AlterUserScramCredentialsRequest()
        case ApiKey.CREATE_DELEGATION_TOKEN:
            return CreateDelegationTokenRequest(max_lifetime_ms=-1)
        case ApiKey.RENEW_DELEGATION_TOKEN:
            return RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=-1)
        case ApiKey.EXPIRE_DELEGATION_TOKEN:
            return ExpireDelegationTokenRequest(hmac=b"h", expiry_time_period_ms=-1)
        case ApiKey.DESCRIBE_DELEGATION_TOKEN:
            return DescribeDelegationTokenRequest()
    return None


def requests_of(key: ApiKey, version: int, topic_id: bytes) -> Any:
    """Return a request that uses as much of a version as makes sense alone."""
    for of in (_of_records, _of_groups, _of_transactions, _of_administration, _of_cluster):
        request = of(key, version, topic_id)
        if request is not None:
            return request
    raise AssertionError(key)


@pytest.mark.slow
@pytest.mark.parametrize("key", sorted(SUPPORTED_APIS), ids=lambda key: key.name)
def test_every_version_is_answered(run: Run, key: ApiKey) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a")
        await served.send(FindCoordinatorRequest(key="g"), 3)
        topic_id = served.broker.metadata.topics["t"].topic_id
        for version in range(APIS[key].min_version, APIS[key].max_version + 1):
            peer = (
                await served.another()
            )  # a group member waits alone, so that it blocks no other request
            response = await peer.send(requests_of(key, version, topic_id), version)
            assert type(response) is APIS[key].response(), version

    run(story)
