"""The controller's request to a broker to stop replicas, and perhaps to delete them (KIP-570)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, i64, message, string, struct


@struct
class StopReplicaRequestUngroupedPartition:
    """A partition, as version 0 names it."""

    topic_name: string = field("0")
    partition_index: i32 = field("0")


@struct
class StopReplicaRequestTopic:
    """Partitions of one topic, as versions 1 and 2 name them."""

    name: string = field("1-2")
    partition_indexes: list[i32] = field("1-2")


@struct
class StopReplicaRequestPartition:
    """A partition to stop."""

    partition_index: i32 = field("3+")
    leader_epoch: i32 = field("3+", default=-1)
    """Fences against a later LeaderAndIsr. -1 is not checked; -2: the topic is being deleted."""
    delete_partition: boolean = field("3+")


@struct
class StopReplicaRequestTopicState:
    """Partitions of one topic."""

    topic_name: string = field("3+")
    partition_states: list[StopReplicaRequestPartition] = field("3+")


@message(api_key=5, versions="0-4", flexible="2+")
class StopReplicaRequest:
    """Replicas that a broker shall stop. The controller sends it."""

    controller_id: i32 = field()
    is_kraft_controller: boolean = field("4+")
    controller_epoch: i32 = field()
    broker_epoch: i64 = field("1+", default=-1, ignorable=True)
    """Epoch of the receiving broker as the controller knows it; fences requests to an earlier registration."""
    delete_partitions: boolean = field("0-2")
    """True if all of them are to be deleted; from version 3 on each partition has its own flag."""
    ungrouped_partitions: list[StopReplicaRequestUngroupedPartition] = field("0")
    topics: list[StopReplicaRequestTopic] = field("1-2")
    topic_states: list[StopReplicaRequestTopicState] = field("3+")


@struct
class StopReplicaResponsePartition:
    """Result for one partition."""

    topic_name: string = field()
    partition_index: i32 = field()
    error_code: i16 = field()
    """FENCED_LEADER_EPOCH: the replica obeys a later state. KAFKA_STORAGE_ERROR: its directory
    has failed.
    """


@message(api_key=5, versions="0-4", flexible="2+")
class StopReplicaResponse:
    """Result for each partition."""

    error_code: i16 = field()
    """STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH: nothing was done."""
    partition_errors: list[StopReplicaResponsePartition] = field()
