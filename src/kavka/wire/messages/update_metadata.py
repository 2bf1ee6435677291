"""The controller's update of a broker's metadata: live brokers and states of partitions (KIP-866)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i8, i16, i32, i64, message, string, struct, uuid


@struct
class UpdateMetadataRequestPartition:
    """The state of one partition."""

    topic_name: string = field("0-4", ignorable=True)
    """From version 5 on the topic says it."""
    partition_index: i32 = field()
    controller_epoch: i32 = field()
    """Of the controller that decided this state."""
    leader: i32 = field()
    """-1: the partition has no leader. -2: forget the partition, its topic is being deleted."""
    leader_epoch: i32 = field()
    isr: list[i32] = field()
    zk_version: i32 = field()
    """The version of the state's znode; elsewhere it is called the partition epoch."""
    replicas: list[i32] = field()
    """All, the preferred leader first."""
    offline_replicas: list[i32] = field("4+", ignorable=True)
    """Replicas on brokers that are down or on directories that have failed."""


@struct
class UpdateMetadataRequestTopic:
    """Partitions of one topic."""

    topic_name: string = field("5+")
    topic_id: uuid = field("7+", ignorable=True)
    partition_states: list[UpdateMetadataRequestPartition] = field("5+")


@struct
class UpdateMetadataRequestEndpoint:
    """The endpoint of one listener of a broker."""

    port: i32 = field("1+")
    host: string = field("1+")
    listener: string = field("3+", ignorable=True)
    """The listener's name; before version 3 that of the security protocol."""
    security_protocol: i16 = field("1+")
    """0: PLAINTEXT. 1: SSL. 2: SASL_PLAINTEXT. 3: SASL_SSL."""


@struct
class UpdateMetadataRequestBroker:
    """A broker that is alive."""

    id: i32 = field()
    v0_host: string = field("0", ignorable=True)
    v0_port: i32 = field("0", ignorable=True)
    endpoints: list[UpdateMetadataRequestEndpoint] = field("1+", ignorable=True)
    rack: string | None = field("2+", nullable="0+", default=None, ignorable=True)


@message(api_key=6, versions="0-8", flexible="6+")
class UpdateMetadataRequest:
    """All live brokers, and the states of the partitions that changed. Sent by the controller."""

    controller_id: i32 = field()
    is_kraft_controller: boolean = field("8+")
    type: i8 = field("8+", tag=0)
    """0: unknown. 1: some partitions. 2: all. A ZooKeeper controller leaves it 0."""
    controller_epoch: i32 = field()
    broker_epoch: i64 = field("5+", default=-1, ignorable=True)
    """Epoch of the receiving broker as the controller knows it; fences requests to an earlier registration."""
    ungrouped_partition_states: list[UpdateMetadataRequestPartition] = field("0-4")
    topic_states: list[UpdateMetadataRequestTopic] = field("5+")
    live_brokers: list[UpdateMetadataRequestBroker] = field()


@message(api_key=6, versions="0-8", flexible="6+")
class UpdateMetadataResponse:
    """Result of updating the broker's metadata cache."""

    error_code: i16 = field()
    """STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH: nothing was done."""
