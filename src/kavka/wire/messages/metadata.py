"""Metadata (key 3)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, message, string, struct, uuid


@struct
class MetadataRequestTopic:
    """Part of MetadataRequest."""

    topic_id: uuid = field("10+", ignorable=True)
    name: string | None = field(nullable="10+")


@message(api_key=3, versions="0-12", flexible="9+")
class MetadataRequest:
    """The request of Metadata."""

    topics: list[MetadataRequestTopic] | None = field(nullable="1+")
    allow_auto_topic_creation: boolean = field("4+", default=True)
    include_cluster_authorized_operations: boolean = field("8-10")
    include_topic_authorized_operations: boolean = field("8+")


@struct
class MetadataResponseBroker:
    """Part of MetadataResponse."""

    node_id: i32 = field()
    host: string = field()
    port: i32 = field()
    rack: string | None = field("1+", nullable="1+", default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    """Part of MetadataResponse."""

    error_code: i16 = field()
    partition_index: i32 = field()
    leader_id: i32 = field()
    leader_epoch: i32 = field("7+", default=-1, ignorable=True)
    replica_nodes: list[i32] = field()
    isr_nodes: list[i32] = field()
    offline_replicas: list[i32] = field("5+", ignorable=True)


@struct
class MetadataResponseTopic:
    """Part of MetadataResponse."""

    error_code: i16 = field()
    name: string | None = field(nullable="12+")
    topic_id: uuid = field("10+", ignorable=True)
    is_internal: boolean = field("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = field()
    topic_authorized_operations: i32 = field("8+", default=-2147483648)


@message(api_key=3, versions="0-12", flexible="9+")
class MetadataResponse:
    """The response of Metadata."""

    throttle_time_ms: i32 = field("3+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    brokers: list[MetadataResponseBroker] = field()
    cluster_id: string | None = field("2+", nullable="2+", default=None, ignorable=True)
    controller_id: i32 = field("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = field()
    cluster_authorized_operations: i32 = field("8-10", default=-2147483648)
