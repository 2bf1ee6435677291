"""Brokers, topics, leaders of partitions; may create missing topics (KIP-4, KIP-430, KIP-516, KIP-526)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, message, string, struct, uuid


@struct
class MetadataRequestTopic:
    """A topic by name or, from version 12 on, by id."""

    topic_id: uuid = field("10+", ignorable=True)
    """Zero when the topic is asked for by name. Versions 10 and 11 have the field, which brokers
    ignore.
    """
    name: string | None = field(nullable="10+")
    """None when the topic is asked for by id."""


@message(api_key=3, versions="0-12", flexible="9+")
class MetadataRequest:
    """Asks for brokers and topics."""

    topics: list[MetadataRequestTopic] | None = field(nullable="1+")
    """None asks for all topics, an empty list for none; in version 0 an empty list asks for all."""
    allow_auto_topic_creation: boolean = field("4+", default=True)
    """True if a missing topic may be created, if auto.create.topics.enable allows it as well."""
    include_cluster_authorized_operations: boolean = field("8-10")
    """Moved to DescribeCluster after version 10."""
    include_topic_authorized_operations: boolean = field("8+")


@struct
class MetadataResponseBroker:
    """A live broker."""

    node_id: i32 = field()
    host: string = field()
    port: i32 = field()
    rack: string | None = field("1+", nullable="1+", default=None, ignorable=True)
    """None where the broker has no broker.rack."""


@struct
class MetadataResponsePartition:
    """A partition and its replicas."""

    error_code: i16 = field()
    """LEADER_NOT_AVAILABLE: there is no leader. LISTENER_NOT_FOUND: the leader has no such
    listener (version 6 on). REPLICA_NOT_AVAILABLE: a replica or in-sync replica is down
    (version 0 only, which hides those).
    """
    partition_index: i32 = field()
    leader_id: i32 = field()
    """-1 while there is none."""
    leader_epoch: i32 = field("7+", default=-1, ignorable=True)
    replica_nodes: list[i32] = field()
    """The preferred leader first."""
    isr_nodes: list[i32] = field()
    """The in-sync set."""
    offline_replicas: list[i32] = field("5+", ignorable=True)
    """Replicas with a broker or directory that is down."""


@struct
class MetadataResponseTopic:
    """A topic, or why there is none."""

    error_code: i16 = field()
    """UNKNOWN_TOPIC_OR_PARTITION: no such topic, or it is being made. LEADER_NOT_AVAILABLE:
    made, leaders not yet elected. INVALID_TOPIC_EXCEPTION: the name is not legal.
    UNKNOWN_TOPIC_ID: no topic of that id. TOPIC_AUTHORIZATION_FAILED.
    """
    name: string | None = field(nullable="12+")
    """None for an id that no topic has."""
    topic_id: uuid = field("10+", ignorable=True)
    """Zero for a name that no topic has."""
    is_internal: boolean = field("1+", ignorable=True)
    """True for `__consumer_offsets` and `__transaction_state`."""
    partitions: list[MetadataResponsePartition] = field()
    topic_authorized_operations: i32 = field("8+", default=-2147483648)
    """A set of bits by AclOperation; the smallest number when not asked for."""


@message(api_key=3, versions="0-12", flexible="9+")
class MetadataResponse:
    """The cluster as this broker knows it."""

    throttle_time_ms: i32 = field("3+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    brokers: list[MetadataResponseBroker] = field()
    """The live ones, with their addresses on the listener that was asked."""
    cluster_id: string | None = field("2+", nullable="2+", default=None, ignorable=True)
    """None only while the broker does not know it; clients then ask again and again."""
    controller_id: i32 = field("1+", default=-1, ignorable=True)
    """The broker that takes administrative requests; -1 while none is elected."""
    topics: list[MetadataResponseTopic] = field()
    cluster_authorized_operations: i32 = field("8-10", default=-2147483648)
    """A set of bits by AclOperation; the smallest number when not asked for."""
