"""Producer, consumer and admin client on asyncio; `blocking` has the same three for threads.

Pure parts (partitioner, accumulator, sequences, metadata cache, subscription, assignors) stand beside the shells
that use them and say so in the first line of their docstrings. Names are imported on first use: all that signatures
of the clients name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kavka.client.admin import (
        DEFAULT_ENTITY,
        Admin,
        AlterOp,
        ClientQuotaEntity,
        ClusterDescription,
        ConfigEntry,
        ConfigOp,
        ConfigResource,
        ConfigSynonym,
        CreatedTopic,
        DelegationToken,
        ElectionType,
        EligibleLeaders,
        FeatureMetadata,
        FeatureUpdate,
        GroupDescription,
        GroupListing,
        HangingTransaction,
        LogDir,
        LogDirReplica,
        MemberDescription,
        NewPartitions,
        NewTopic,
        OffsetSpec,
        ProducerState,
        QuotaComponent,
        Reassignment,
        Replica,
        ReplicaLogDirs,
        ReplicaRecords,
        ResourceType,
        ScramCredentialInfo,
        ScramDeletion,
        ScramUpsertion,
        TopicDescription,
        TransactionDescription,
        TransactionListing,
        UpgradeType,
    )
    from kavka.client.consumer import (
        Consumer,
        ConsumerRecord,
        CorruptRecordError,
        FetchedBatches,
        OffsetAndMetadata,
        RebalanceListener,
        RecordDeserializationError,
    )
    from kavka.client.exactly_once import ExactlyOnce, Transform
    from kavka.client.lag import Lag
    from kavka.client.list_offsets import OffsetAndTimestamp
    from kavka.client.metadata import BrokerAddress, PartitionMetadata, TopicMetadata
    from kavka.client.metrics.names import MetricName, Metrics
    from kavka.client.metrics.open_telemetry import OpenTelemetryReporter
    from kavka.client.metrics.prometheus import PrometheusReporter
    from kavka.client.metrics.reporters import CallbackReporter, MetricsReporter, MetricsSource
    from kavka.client.offset_stores import (
        CheckpointFile,
        OffsetsTaken,
        OffsetStore,
        OutputFiles,
        SqlOffsets,
        StoredOffsets,
    )
    from kavka.client.plain_json import PlainJsonDeserializer, PlainJsonSerializer
    from kavka.client.producer import (
        AbortableError,
        BufferFull,
        FatalError,
        PreparedTxnState,
        Producer,
        ProducerRecord,
        RecordMetadata,
        RecordRange,
    )
    from kavka.client.producer.batch import Callback, HeaderPairs, Headers
    from kavka.client.producer.records import AppendOptions
    from kavka.client.serialization import RecordSerializationError, SerializationContext
    from kavka.client.setting_names import SettingWithoutEffect, UnknownSetting
    from kavka.core.access.entries import (
        AclBinding,
        AclEntry,
        AclFilter,
        Principal,
        ResourcePattern,
    )
    from kavka.core.access.names import AclOperation, AclPermission, AclResourceType, PatternType
    from kavka.core.group_member.steps import GroupMetadata
    from kavka.core.quota.entities import QuotaEntity
    from kavka.errors import AuthenticationFailed, ErrorCode, KafkaError
    from kavka.ids import BrokerId, TopicPartition
    from kavka.settings.declaration import InvalidSetting
    from kavka.wire.messages.api_versions import (
        ApiVersionsResponse,
        ApiVersionsResponseApi,
        ApiVersionsResponseFinalizedFeature,
        ApiVersionsResponseSupportedFeature,
    )
    from kavka.wire.records.columns import BytesColumn, Columns
    from kavka.wire.records.compression import Compression
    from kavka.wire.records.header import BatchHeader, TimestampType

_HOMES = {
    "kavka.client.admin": (
        "Admin AlterOp ClientQuotaEntity ClusterDescription ConfigEntry ConfigOp ConfigResource ConfigSynonym "
        "CreatedTopic DEFAULT_ENTITY DelegationToken ElectionType EligibleLeaders FeatureMetadata "
        "FeatureUpdate GroupDescription GroupListing HangingTransaction LogDir LogDirReplica "
        "MemberDescription NewPartitions NewTopic OffsetSpec ProducerState QuotaComponent Reassignment "
        "Replica ReplicaLogDirs ReplicaRecords ResourceType ScramCredentialInfo ScramDeletion ScramUpsertion "
        "TopicDescription TransactionDescription TransactionListing UpgradeType"
    ),
    "kavka.client.consumer": (
        "Consumer ConsumerRecord CorruptRecordError FetchedBatches OffsetAndMetadata RebalanceListener "
        "RecordDeserializationError"
    ),
    "kavka.client.exactly_once": "ExactlyOnce Transform",
    "kavka.client.lag": "Lag",
    "kavka.client.list_offsets": "OffsetAndTimestamp",
    "kavka.client.metadata": "BrokerAddress PartitionMetadata TopicMetadata",
    "kavka.client.metrics.names": "MetricName Metrics",
    "kavka.client.metrics.open_telemetry": "OpenTelemetryReporter",
    "kavka.client.metrics.prometheus": "PrometheusReporter",
    "kavka.client.metrics.reporters": "CallbackReporter MetricsReporter MetricsSource",
    "kavka.client.offset_stores": "CheckpointFile OffsetStore OffsetsTaken OutputFiles SqlOffsets StoredOffsets",
    "kavka.client.plain_json": "PlainJsonDeserializer PlainJsonSerializer",
    "kavka.client.producer": (
        "AbortableError BufferFull FatalError PreparedTxnState Producer ProducerRecord RecordMetadata "
        "RecordRange"
    ),
    "kavka.client.producer.batch": "Callback HeaderPairs Headers",
    "kavka.client.producer.records": "AppendOptions",
    "kavka.client.serialization": "RecordSerializationError SerializationContext",
    "kavka.client.setting_names": "SettingWithoutEffect UnknownSetting",
    "kavka.core.access.entries": "AclBinding AclEntry AclFilter Principal ResourcePattern",
    "kavka.core.access.names": "AclOperation AclPermission AclResourceType PatternType",
    "kavka.core.group_member.steps": "GroupMetadata",
    "kavka.core.quota.entities": "QuotaEntity",
    "kavka.errors": "AuthenticationFailed ErrorCode KafkaError",
    "kavka.ids": "BrokerId TopicPartition",
    "kavka.settings.declaration": "InvalidSetting",
    "kavka.wire.messages.api_versions": (
        "ApiVersionsResponse ApiVersionsResponseApi ApiVersionsResponseFinalizedFeature "
        "ApiVersionsResponseSupportedFeature"
    ),
    "kavka.wire.records.columns": "BytesColumn Columns",
    "kavka.wire.records.compression": "Compression",
    "kavka.wire.records.header": "BatchHeader TimestampType",
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "DEFAULT_ENTITY",
    "AbortableError",
    "AclBinding",
    "AclEntry",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "AclResourceType",
    "Admin",
    "AlterOp",
    "ApiVersionsResponse",
    "ApiVersionsResponseApi",
    "ApiVersionsResponseFinalizedFeature",
    "ApiVersionsResponseSupportedFeature",
    "AppendOptions",
    "AuthenticationFailed",
    "BatchHeader",
    "BrokerAddress",
    "BrokerId",
    "BufferFull",
    "BytesColumn",
    "Callback",
    "CallbackReporter",
    "CheckpointFile",
    "ClientQuotaEntity",
    "ClusterDescription",
    "Columns",
    "Compression",
    "ConfigEntry",
    "ConfigOp",
    "ConfigResource",
    "ConfigSynonym",
    "Consumer",
    "ConsumerRecord",
    "CorruptRecordError",
    "CreatedTopic",
    "DelegationToken",
    "ElectionType",
    "EligibleLeaders",
    "ErrorCode",
    "ExactlyOnce",
    "FatalError",
    "FeatureMetadata",
    "FeatureUpdate",
    "FetchedBatches",
    "GroupDescription",
    "GroupListing",
    "GroupMetadata",
    "HangingTransaction",
    "HeaderPairs",
    "Headers",
    "InvalidSetting",
    "KafkaError",
    "Lag",
    "LogDir",
    "LogDirReplica",
    "MemberDescription",
    "MetricName",
    "Metrics",
    "MetricsReporter",
    "MetricsSource",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "OffsetStore",
    "OffsetsTaken",
    "OpenTelemetryReporter",
    "OutputFiles",
    "PartitionMetadata",
    "PatternType",
    "PlainJsonDeserializer",
    "PlainJsonSerializer",
    "PreparedTxnState",
    "Principal",
    "Producer",
    "ProducerRecord",
    "ProducerState",
    "PrometheusReporter",
    "QuotaComponent",
    "QuotaEntity",
    "Reassignment",
    "RebalanceListener",
    "RecordDeserializationError",
    "RecordMetadata",
    "RecordRange",
    "RecordSerializationError",
    "Replica",
    "ReplicaLogDirs",
    "ReplicaRecords",
    "ResourcePattern",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramDeletion",
    "ScramUpsertion",
    "SerializationContext",
    "SettingWithoutEffect",
    "SqlOffsets",
    "StoredOffsets",
    "TimestampType",
    "TopicDescription",
    "TopicMetadata",
    "TopicPartition",
    "TransactionDescription",
    "TransactionListing",
    "Transform",
    "UnknownSetting",
    "UpgradeType",
]


if not TYPE_CHECKING:  # else a type checker would take every name

    def __getattr__(name: str) -> Any:
        """Import a public name from the module that has it."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'kavka.client' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    """Return all names, those that were not imported yet, too."""
    return sorted({*globals(), *__all__})
