"""The admin client: what Kafka's tools do, each request to the broker that can answer it."""

from kavka.client.admin.admin import Admin
from kavka.client.admin.configs import (
    AlterOp,
    ConfigEntry,
    ConfigOp,
    ConfigResource,
    ConfigSynonym,
    ResourceType,
)
from kavka.client.admin.delegation_tokens import DelegationToken
from kavka.client.admin.elections import ElectionType
from kavka.client.admin.eligible_leaders import EligibleLeaders
from kavka.client.admin.features import FeatureMetadata, FeatureUpdate, UpgradeType
from kavka.client.admin.groups import GroupDescription, GroupListing, MemberDescription
from kavka.client.admin.nodes import ClusterDescription, LogDir, LogDirReplica
from kavka.client.admin.quotas import DEFAULT_ENTITY, ClientQuotaEntity, QuotaComponent
from kavka.client.admin.reassignments import Reassignment
from kavka.client.admin.records import OffsetSpec
from kavka.client.admin.replica_log_dirs import Replica, ReplicaLogDirs
from kavka.client.admin.replica_records import ReplicaRecords
from kavka.client.admin.topics import CreatedTopic, NewPartitions, NewTopic, TopicDescription
from kavka.client.admin.transactions import (
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from kavka.client.admin.user_credentials import (
    ScramCredentialInfo,
    ScramDeletion,
    ScramUpsertion,
)

__all__ = [
    "DEFAULT_ENTITY",
    "Admin",
    "AlterOp",
    "ClientQuotaEntity",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigOp",
    "ConfigResource",
    "ConfigSynonym",
    "CreatedTopic",
    "DelegationToken",
    "ElectionType",
    "EligibleLeaders",
    "FeatureMetadata",
    "FeatureUpdate",
    "GroupDescription",
    "GroupListing",
    "HangingTransaction",
    "LogDir",
    "LogDirReplica",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "ProducerState",
    "QuotaComponent",
    "Reassignment",
    "Replica",
    "ReplicaLogDirs",
    "ReplicaRecords",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramDeletion",
    "ScramUpsertion",
    "TopicDescription",
    "TransactionDescription",
    "TransactionListing",
    "UpgradeType",
]
