"""The controller's request to a broker to lead or follow partitions (KIP-455, KIP-704, KIP-866)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i8, i16, i32, i64, message, string, struct, uuid


@struct
class LeaderAndIsrRequestPartition:
    """The state of one partition."""

    topic_name: string = field("0-1", ignorable=True)
    """From version 2 on the topic says it."""
    partition_index: i32 = field()
    controller_epoch: i32 = field()
    """Of the controller that decided this state."""
    leader: i32 = field()
    """-1: the partition has no leader. -2: its topic is being deleted."""
    leader_epoch: i32 = field()
    isr: list[i32] = field()
    partition_epoch: i32 = field()
    """The version of the state's znode; it grows with each change of leader or in-sync set."""
    replicas: list[i32] = field()
    """All, the preferred leader first."""
    adding_replicas: list[i32] = field("3+", ignorable=True)
    removing_replicas: list[i32] = field("3+", ignorable=True)
    is_new: boolean = field("1+", ignorable=True)
    """True if the replica is expected to be new on the broker."""
    leader_recovery_state: i8 = field("6+")
    """1 after an unclean election, until the leader has recovered."""


@struct
class LeaderAndIsrRequestTopic:
    """Partitions of one topic."""

    topic_name: string = field("2+")
    topic_id: uuid = field("5+", ignorable=True)
    partition_states: list[LeaderAndIsrRequestPartition] = field("2+")


@struct
class LeaderAndIsrRequestLeader:
    """The endpoint of a leader for its followers."""

    broker_id: i32 = field()
    host_name: string = field()
    port: i32 = field()


@message(api_key=4, versions="0-7", flexible="4+")
class LeaderAndIsrRequest:
    """States of partitions that the broker has replicas of. The controller sends it."""

    controller_id: i32 = field()
    is_kraft_controller: boolean = field("7+")
    controller_epoch: i32 = field()
    broker_epoch: i64 = field("2+", default=-1, ignorable=True)
    """Epoch of the receiving broker as the controller knows it; fences requests to an earlier registration."""
    type: i8 = field("5+")
    """0: unknown. 1: some partitions. 2: all; a replica that is not named is stray."""
    ungrouped_partition_states: list[LeaderAndIsrRequestPartition] = field("0-1")
    topic_states: list[LeaderAndIsrRequestTopic] = field("2+")
    live_leaders: list[LeaderAndIsrRequestLeader] = field()


@struct
class LeaderAndIsrResponsePartition:
    """Result for one partition."""

    topic_name: string = field("0-4", ignorable=True)
    partition_index: i32 = field()
    error_code: i16 = field()
    """STALE_CONTROLLER_EPOCH: the state is not newer than the broker's. INCONSISTENT_TOPIC_ID.
    KAFKA_STORAGE_ERROR: the replica's directory has failed.
    """


@struct
class LeaderAndIsrResponseTopic:
    """Partitions of one topic."""

    topic_id: uuid = field("5+")
    partition_errors: list[LeaderAndIsrResponsePartition] = field("5+")


@message(api_key=4, versions="0-7", flexible="4+")
class LeaderAndIsrResponse:
    """Result for each partition."""

    error_code: i16 = field()
    """STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH: nothing was done."""
    partition_errors: list[LeaderAndIsrResponsePartition] = field("0-4")
    topics: list[LeaderAndIsrResponseTopic] = field("5+")
