"""Events and effects of the machine of transaction markers."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple, Protocol

from kavka.core.transaction.events import MarkersWritten, SendMarkers
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicPartition

MarkerCodes = Mapping[tuple[int, TopicPartition], ErrorCode]
"""Error codes of a WriteTxnMarkers response, by producer id and partition."""


class Coordinator(Protocol):
    """The coordinator of some transactional ids, as long as it leads their partition."""

    @property
    def coordinator_epoch(self) -> int:
        """Return the leader epoch by which it decides."""
        ...

    def post_all(self, events: Sequence[MarkersWritten]) -> None:
        """Note that markers are written. The shell calls this, for the effects `ReportWritten`."""
        ...


class PartitionLeader(Protocol):
    """The metadata of a partition, as far as the decisions need it."""

    @property
    def leader(self) -> BrokerId:
        """Return the leader, -1 without one."""
        ...


class ClusterMetadata(Protocol):
    """The metadata of the cluster, as far as the decisions need it: they are made by what it says at the time."""

    @property
    def brokers(self) -> Container[BrokerId]:
        """Return the live brokers."""
        ...

    def partition(self, topic_partition: TopicPartition) -> PartitionLeader | None:
        """Return what is known of a partition, or None."""
        ...


class TransactionMarkers(NamedTuple):
    """The markers of one transaction in a request."""

    coordinator_epoch: int
    transaction: SendMarkers
    partitions: list[TopicPartition]
    """Those of the transaction's partitions that are in the request."""


# Events


class MarkersNeeded(NamedTuple):
    """The outcome of a transaction is stored: its partitions need markers."""

    coordinator: Coordinator
    transaction: SendMarkers


class CoordinatorResigned(NamedTuple):
    """A coordinator leads its partition no longer: its successor sends the markers."""

    coordinator: Coordinator


class MetadataChanged(NamedTuple):
    """Brokers, topics or leaders have changed."""


class ResponseReceived(NamedTuple):
    """A request was answered, or was not sent because `markers_of` was empty."""

    number: int
    codes: MarkerCodes


class RequestFailed(NamedTuple):
    """A request was not answered."""

    number: int
    has_timed_out: bool


class DeletionChecked(NamedTuple):
    """The registry has answered, or could not be asked: then `is_deleted` is False."""

    number: int
    is_deleted: bool


Event = (
    MarkersNeeded
    | CoordinatorResigned
    | MetadataChanged
    | ResponseReceived
    | RequestFailed
    | DeletionChecked
)


# Effects


class SendRequest(NamedTuple):
    """Connect to a broker if need be, send what `markers_of` gives then, and report the result.

    Each request in flight has a connection of its own, because a broker answers those of one connection in order.
    """

    number: int
    broker_id: BrokerId


class Disconnect(NamedTuple):
    """Close all connections to a broker, which is not alive; its requests fail."""

    broker_id: BrokerId


class CheckDeletion(NamedTuple):
    """Ask the registry whether a partition is deleted, and report it with `DeletionChecked`."""

    number: int
    topic_partition: TopicPartition


class ReportWritten(NamedTuple):
    """Post an event to the coordinator of a transaction."""

    coordinator: Coordinator
    event: MarkersWritten


class LogRefused(NamedTuple):
    """Log that a partition has not taken a marker."""

    topic_partition: TopicPartition
    producer_id: int
    error: ErrorCode


class LogDeleted(NamedTuple):
    """Log that a partition needs no marker because it is deleted."""

    topic_partition: TopicPartition


Effect = SendRequest | Disconnect | CheckDeletion | ReportWritten | LogRefused | LogDeleted
