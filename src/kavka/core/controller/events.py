"""Events of the controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kavka.core.controller.state import LiveBroker, TopicRead
from kavka.core.machine import Token
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, TopicId, TopicPartition
from kavka.values import field, frozen
from kavka.wire.stored.znodes import StateNode


class ElectionKind(IntEnum):
    """The election types of ElectLeaders, as numbered there."""

    PREFERRED = 0
    UNCLEAN = 1


# -- events of the registry


@frozen
class Snapshot:
    """All that a new controller reads."""

    brokers: Sequence[LiveBroker] = ()
    topics: Mapping[str, TopicRead] = field(factory=dict)
    deletions: Sequence[str] = ()
    reassignments: Mapping[TopicPartition, tuple[int, ...]] | None = None
    preferred_elections: Sequence[TopicPartition] | None = None


@frozen
class Elected:
    """The machine's first event: its snapshot is loaded."""

    bounced: frozenset[int] = frozenset()
    """Brokers that stopped uncleanly, as they know themselves."""
    returned: Mapping[int, frozenset[TopicPartition]] = field(factory=dict)
    """By broker: partitions with a state that was written before it registered, and that relies on its earlier log."""


@frozen
class BrokersChanged:
    """The brokers that are registered now, all of them."""

    brokers: Sequence[LiveBroker]


@frozen
class TopicsChanged:
    """Topics that are new in the registry, or have another assignment, and those that vanished from it."""

    topics: Mapping[str, TopicRead] = field(factory=dict)
    removed: Sequence[str] = ()
    unreadable: Sequence[str] = ()
    """Topics with znodes that cannot be decoded, and so cannot be changed: they stay as they are."""


@frozen
class DeletionsMarked:
    """The topics that are marked for deletion."""

    topics: Sequence[str]


@frozen
class ReassignmentNodeRead:
    """The content of `/admin/reassign_partitions`; None when it does not exist."""

    targets: Mapping[TopicPartition, tuple[int, ...]] | None


@frozen
class PreferredElectionNodeRead:
    """The content of `/admin/preferred_replica_election`."""

    partitions: Sequence[TopicPartition]


@frozen
class PartitionsRead:
    """States as they are, after a write met another version than it expected; None is no state."""

    states: Mapping[TopicPartition, tuple[StateNode, int] | None]


@frozen
class LogDirFailed:
    """Brokers that say that one of their log directories failed."""

    brokers: Sequence[int]


@frozen
class UncleanEnabled:
    """Unclean elections are allowed from now on: for a topic, or, with None, for all that do not forbid them."""

    topic: str | None


# -- events of the network


@frozen
class BrokerSuspected:
    """A registered broker refuses connections; `broker_epoch` is of that registration."""

    broker: int
    broker_epoch: int


@frozen
class BrokerCleared:
    """A suspect took a connection after all."""

    broker: int
    broker_epoch: int


@frozen
class ControlResponseReceived:
    """A broker's response to a control request: errors of LeaderAndIsr, and of replicas to delete."""

    broker: int
    broker_epoch: int
    leader_and_isr: Mapping[TopicPartition, ErrorCode] = field(factory=dict)
    deleted: Mapping[TopicPartition, ErrorCode] = field(factory=dict)


# -- requests


class TopicToCreate(NamedTuple):
    """A topic that was checked and placed."""

    name: str
    topic_id: TopicId
    assignment: Mapping[int, tuple[int, ...]]
    config: Mapping[str, str]


@frozen
class CreateTopicRequested:
    """Create a topic. Answered by TopicReply."""

    token: Token
    topic: TopicToCreate


@frozen
class CreatePartitionsRequested:
    """Add partitions to a topic. Answered by TopicReply."""

    token: Token
    topic: str
    added: Mapping[int, tuple[int, ...]]


@frozen
class DeleteTopicRequested:
    """Delete a topic. Answered by TopicReply when it is gone, or waits for brokers that are away."""

    token: Token
    topic: str
    topic_id: TopicId = NO_TOPIC_ID
    """If not None, a topic of that name with another id is not deleted."""


@frozen
class ReassignmentRequested:
    """Move partitions; None calls a move off. Answered by PartitionsReply."""

    token: Token
    targets: Mapping[TopicPartition, tuple[int, ...] | None]


@frozen
class ListReassignmentsRequested:
    """Ask for moves in progress, of all partitions with None. Answered by ReassignmentsReply."""

    token: Token
    partitions: Sequence[TopicPartition] | None


@frozen
class ElectionRequested:
    """Elect leaders, of all partitions with None. Answered by PartitionsReply."""

    token: Token
    kind: ElectionKind
    partitions: Sequence[TopicPartition] | None


class IsrChange(NamedTuple):
    """An in-sync set that a leader proposes. The topic goes by its id, if that is given."""

    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    in_sync_replicas: tuple[int, ...]
    broker_epochs: tuple[int, ...] = ()
    """Of each in-sync replica, -1 where the leader does not know; empty before version 3."""
    is_recovering: bool = False
    topic_id: TopicId = NO_TOPIC_ID


@frozen
class AlterPartitionRequested:
    """AlterPartition. Answered by IsrReply."""

    token: Token
    broker: int
    broker_epoch: int
    changes: Sequence[IsrChange]


@frozen
class ControlledShutdownRequested:
    """A broker wants to stop. Answered by ShutdownReply."""

    token: Token
    broker: int
    broker_epoch: int


Event = (
    Elected
    | BrokersChanged
    | TopicsChanged
    | DeletionsMarked
    | ReassignmentNodeRead
    | PreferredElectionNodeRead
    | PartitionsRead
    | LogDirFailed
    | UncleanEnabled
    | BrokerSuspected
    | BrokerCleared
    | ControlResponseReceived
    | CreateTopicRequested
    | CreatePartitionsRequested
    | DeleteTopicRequested
    | ReassignmentRequested
    | ListReassignmentsRequested
    | ElectionRequested
    | AlterPartitionRequested
    | ControlledShutdownRequested
)
