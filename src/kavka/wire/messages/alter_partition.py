"""A leader asks the controller to change the in-sync sets of its partitions (KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

from kavka.wire.schema import field, i8, i16, i32, i64, message, string, struct, uuid


@struct
class AlterPartitionRequestInSync:
    """A broker that is to be in sync."""

    broker_id: i32 = field("3+")
    broker_epoch: i64 = field("3+", default=-1)
    """As its last Fetch said it; -1 is not checked."""


@struct
class AlterPartitionRequestPartition:
    """The state that the leader proposes."""

    partition_index: i32 = field()
    leader_epoch: i32 = field()
    """Of the leader that proposes."""
    new_isr: list[i32] = field("0-2")
    new_isr_with_epochs: list[AlterPartitionRequestInSync] = field("3+")
    leader_recovery_state: i8 = field("1+")
    """1 while the leader of an unclean election has not recovered."""
    partition_epoch: i32 = field()
    """The version of the state that this one shall replace."""


@struct
class AlterPartitionRequestTopic:
    """Partitions of one topic."""

    topic_name: string = field("0-1", ignorable=True)
    topic_id: uuid = field("2+", ignorable=True)
    partitions: list[AlterPartitionRequestPartition] = field()


@message(api_key=56, versions="0-3", flexible="0+")
class AlterPartitionRequest:
    """In-sync sets that leaders on one broker propose. The controller takes it."""

    broker_id: i32 = field()
    broker_epoch: i64 = field(default=-1)
    topics: list[AlterPartitionRequestTopic] = field()


@struct
class AlterPartitionResponsePartition:
    """The state of a partition after the request."""

    partition_index: i32 = field()
    error_code: i16 = field()
    """INVALID_UPDATE_VERSION: the state has changed meanwhile. FENCED_LEADER_EPOCH,
    INELIGIBLE_REPLICA (a broker that is down or about to stop), UNKNOWN_TOPIC_OR_PARTITION,
    UNKNOWN_TOPIC_ID, NOT_CONTROLLER, INVALID_REQUEST.
    """
    leader_id: i32 = field()
    leader_epoch: i32 = field()
    isr: list[i32] = field()
    leader_recovery_state: i8 = field("1+", ignorable=True)
    partition_epoch: i32 = field()


@struct
class AlterPartitionResponseTopic:
    """Partitions of one topic."""

    topic_name: string = field("0-1", ignorable=True)
    topic_id: uuid = field("2+", ignorable=True)
    partitions: list[AlterPartitionResponsePartition] = field()


@message(api_key=56, versions="0-3", flexible="0+")
class AlterPartitionResponse:
    """Result for each proposal."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """NOT_CONTROLLER, STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_FAILED."""
    topics: list[AlterPartitionResponseTopic] = field()
