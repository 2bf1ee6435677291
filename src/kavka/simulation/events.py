"""Events that the programs of a run report to the invariants: facts that a user of Kafka could see.

A record's value identifies it: no client sends the same value twice on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass

from kavka.core.transactional_producer.state import PreparedTxnState
from kavka.ids import TopicId, TopicPartition
from kavka.wire.stored.znodes import StateNode


@dataclass(frozen=True, slots=True)
class Sent:
    """A producer asked for `value`; its `number` counts the producer's records of that partition, from 0."""

    producer: str
    partition: TopicPartition
    number: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The broker said that `value` is in the log; `offset` is -1 when it no longer knows where."""

    producer: str
    partition: TopicPartition
    offset: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """The producer gave up on `value`: it may be in the log, or not."""

    producer: str
    partition: TopicPartition
    value: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Read:
    """A reader that goes forward, record by record, got one."""

    reader: str
    partition: TopicPartition
    offset: int
    value: bytes


@dataclass(frozen=True, slots=True)
class PositionReset:
    """A reader restarts at another position."""

    reader: str
    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class WatermarkSeen:
    """A reader received a high watermark."""

    reader: str
    partition: TopicPartition
    high_watermark: int
    leader_epoch: int = -1
    """Epoch of the answering leader; a new one may know less for a moment."""
    follower: int = -1
    """The follower that returned it, -1 for the leader: a restarted one may know less in the same epoch."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """Records below `offset` were asked to be deleted."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class Processed:
    """A member of a group finished its work on a record."""

    group: str
    member: str
    partition: TopicPartition
    offset: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Committed:
    """The coordinator confirmed a group's offset: everything below it is done."""

    group: str
    member: str
    partition: TopicPartition
    offset: int
    at_s: float


@dataclass(frozen=True, slots=True)
class CommittedSeen:
    """The coordinator returned a group's offset, None when there is none, to a request sent at `requested_s`."""

    group: str
    partition: TopicPartition
    offset: int | None
    requested_s: float


@dataclass(frozen=True, slots=True)
class Assigned:
    """A member was given these partitions, and no others, in a generation of its group."""

    group: str
    member: str
    generation: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class PowerLost:
    """A host crashed: what was neither synced nor written back may be gone."""

    node: str


@dataclass(frozen=True, slots=True)
class Audited:
    """After everything healed, a partition was read from its start to its end."""

    partition: TopicPartition
    log_start_offset: int
    high_watermark: int
    records: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class EndOffsetRequested:
    """A reader is about to ask for the end of a partition."""

    reader: str
    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class EndOffsetRead:
    """A leader named the end of what may be read, in its epoch, to the reader that asked for it."""

    reader: str
    partition: TopicPartition
    offset: int
    leader_epoch: int


# Transactions: `transaction` names one, once and for all.


@dataclass(frozen=True, slots=True)
class ProducerInitialized:
    """A producer was given a transactional id, with its producer id and epoch: those before it are fenced."""

    transactional_id: str
    producer: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class SentInTransaction:
    """A producer asked for `value` in a transaction."""

    transaction: str
    transactional_id: str
    producer: str
    partition: TopicPartition
    value: bytes


@dataclass(frozen=True, slots=True)
class CommitRequested:
    """A producer is about to ask for the commit of a transaction, with this offset of its group."""

    transaction: str
    group: str
    offset: int


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """A producer was answered that its transaction is committed, or aborted."""

    transaction: str
    committed: bool


@dataclass(frozen=True, slots=True)
class Prepared:
    """All of a transaction is written, and the arbiter will decide about it (KIP-939).

    `state` is its name at the coordinator.
    """

    transaction: str
    transactional_id: str
    state: PreparedTxnState


@dataclass(frozen=True, slots=True)
class Decided:
    """The final decision about a prepared transaction: commit or abort."""

    transactional_id: str
    state: PreparedTxnState
    committed: bool


@dataclass(frozen=True, slots=True)
class Resumed:
    """A producer got a transactional id by `identity`, and with it `found`, the earlier producer's open transaction."""

    transactional_id: str
    identity: PreparedTxnState
    found: PreparedTxnState | None


@dataclass(frozen=True, slots=True)
class CommittedRead:
    """A reader of committed records only got one, going forward from the partition's start."""

    reader: str
    partition: TopicPartition
    offset: int
    value: bytes


@dataclass(frozen=True, slots=True)
class PositionSeen:
    """A new producer of a transactional id read its group's offset, 0 for none."""

    group: str
    offset: int


@dataclass(frozen=True, slots=True)
class TransactionsAudited:
    """After everything healed: all committed records, partition by partition, and the groups' offsets."""

    records: dict[TopicPartition, tuple[bytes, ...]]
    offsets: dict[str, int]


# What happens inside of a cluster, and users cannot see.


@dataclass(frozen=True, slots=True)
class ControllerElected:
    """A session was elected controller, with a new epoch."""

    epoch: int
    session_id: int


@dataclass(frozen=True, slots=True)
class StateWritten:
    """A partition's state in the registry became another."""

    topic: str
    partition: int
    topic_id: TopicId
    before: StateNode | None
    after: StateNode
    session_id: int
    controller_epoch: int
    """The content of `/controller_epoch` at that moment."""


@dataclass(frozen=True, slots=True)
class ReplicaSeen:
    """A replica in the memory of a broker."""

    broker: int
    run: int
    """Number of the broker's process."""
    partition: TopicPartition
    topic_id: TopicId
    leads: bool
    leader_epoch: int
    high_watermark: int
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class ClusterObserved:
    """All replicas at live brokers of the partitions of which anything has changed since the last look.

    `states` are those of all partitions in the registry.
    """

    replicas: tuple[ReplicaSeen, ...]
    states: dict[TopicPartition, StateNode]


@dataclass(frozen=True, slots=True)
class Batch:
    """The identity of a batch.

    Those of a compacted topic lose records when their replica is cleaned: they have no checksum (0) but the offsets
    of their records, with a checksum of each.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    records: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class BatchesSeen:
    """The bytes of a replica below its high watermark, as far as they are news: one batch after the other."""

    broker: int
    topic_id: TopicId
    partition: TopicPartition
    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class UncleanElection:
    """A replica that was not in sync was elected; its `StateWritten` follows.

    Lost is what a replica in sync had, on its disk, and the elected one had not. What was acknowledged was on those
    disks, so this is all that may be missing from now on. Moved is what the elected one has at another offset: it came
    there from a leader that was deposed, and was sent again to the next one.
    """

    partition: TopicPartition
    topic_id: TopicId
    leader: int
    leader_epoch: int
    end_offset: int
    """Of the elected replica."""
    first_lost: int
    """The first offset of a batch that is lost; `end_offset` when none is."""
    lost: frozenset[bytes]
    """Values of records."""
    moved: frozenset[bytes]
    lost_batches: frozenset[Batch]
    ready: tuple[int, ...]
    """Replicas in sync with brokers that have been registered for so long that the controller must know it."""


@dataclass(frozen=True, slots=True)
class LogsAudited:
    """All batches of the replicas of a partition that is not compacted, by broker, after the last write."""

    partition: TopicPartition
    logs: dict[int, tuple[Batch, ...]]


Event = (
    Sent
    | Acknowledged
    | Refused
    | Read
    | PositionReset
    | WatermarkSeen
    | Deleted
    | Processed
    | Committed
    | CommittedSeen
    | Assigned
    | PowerLost
    | Audited
    | EndOffsetRequested
    | EndOffsetRead
    | ProducerInitialized
    | SentInTransaction
    | CommitRequested
    | TransactionEnded
    | Prepared
    | Decided
    | Resumed
    | CommittedRead
    | PositionSeen
    | TransactionsAudited
    | ControllerElected
    | StateWritten
    | ClusterObserved
    | BatchesSeen
    | UncleanElection
    | LogsAudited
)
