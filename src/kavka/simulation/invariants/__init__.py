"""Invariants of every run, one class for each guarantee.

An invariant sees the events of a run one by one and raises `Violation` at the first that breaks its promise. Most
know nothing of brokers, only what users can see; those of clusters also see the replicas and the writers of records.
"""

from __future__ import annotations

from collections.abc import Collection

from kavka.simulation.faults import Durability, FaultModel
from kavka.simulation.invariants.acknowledged import AcknowledgedRecordsSurvive
from kavka.simulation.invariants.contiguous import OffsetsHaveNoGaps
from kavka.simulation.invariants.controller import (
    OneControllerPerEpoch,
    StatesGoForward,
)
from kavka.simulation.invariants.duplicates import IdempotentProducersNeverDuplicate
from kavka.simulation.invariants.groups import (
    CommittedOffsetsStay,
    CommittedRecordsWereProcessed,
    CommittedRecordsWereProcessedOrDeleted,
    OneOwnerPerPartition,
)
from kavka.simulation.invariants.history import RecordsNeverChange
from kavka.simulation.invariants.invariant import Invariant, Violation
from kavka.simulation.invariants.order import RecordsKeepTheirOrder
from kavka.simulation.invariants.replication import (
    CommittedLogsAreEqual,
    EndOfPartitionNeverGoesBack,
    InSyncReplicasHaveWhatIsCommitted,
    LeadersWatermarkOnlyGrows,
    OneLeaderPerEpoch,
    ReplicasEndAlike,
)
from kavka.simulation.invariants.transactions import (
    EachInputIsProcessedOnce,
    FencedProducersCommitNothing,
    OffsetsMoveWithTransactions,
    OnlyCommittedRecordsAreRead,
    TransactionsAreAllOrNothing,
)
from kavka.simulation.invariants.two_phase import PreparedTransactionsEndAsDecided
from kavka.simulation.invariants.watermark import HighWatermarkOnlyGrows

__all__ = ["Invariant", "Violation", "for_cluster", "for_model"]

_POWER_MODEL = "power"
"""Fault models in which an in-sync replica may have lost its end, unknown until its broker has registered again."""

_ALWAYS: tuple[type[Invariant], ...] = (
    OffsetsHaveNoGaps,
    RecordsKeepTheirOrder,
    OneOwnerPerPartition,
)
_IF_NOTHING_IS_LOST: tuple[type[Invariant], ...] = (
    AcknowledgedRecordsSurvive,
    IdempotentProducersNeverDuplicate,
    RecordsNeverChange,
    HighWatermarkOnlyGrows,
    CommittedOffsetsStay,
)


def for_model(model: FaultModel) -> list[Invariant]:
    """Return new invariants: those that hold under `model`."""
    kinds = _ALWAYS
    keeps_all = model.durability is Durability.EVERYTHING_ACKNOWLEDGED
    if keeps_all:
        kinds += _IF_NOTHING_IS_LOST
    processed = CommittedRecordsWereProcessed(loses_records_with_power=not keeps_all)
    return [*(kind() for kind in kinds), processed]


_IN_CLUSTERS: tuple[type[Invariant], ...] = (
    OffsetsHaveNoGaps,
    RecordsKeepTheirOrder,
    OneOwnerPerPartition,
    CommittedRecordsWereProcessedOrDeleted,
    *_IF_NOTHING_IS_LOST,
    OneLeaderPerEpoch,
    OneControllerPerEpoch,
    LeadersWatermarkOnlyGrows,
    CommittedLogsAreEqual,
    ReplicasEndAlike,
    EndOfPartitionNeverGoesBack,
    TransactionsAreAllOrNothing,
    OnlyCommittedRecordsAreRead,
    FencedProducersCommitNothing,
    OffsetsMoveWithTransactions,
    EachInputIsProcessedOnce,
)


def for_cluster(
    model: FaultModel, *, two_phase: bool = False, unclean: Collection[str] = ()
) -> list[Invariant]:
    """Return new invariants for a cluster; all its models promise that everything acknowledged is left.

    `two_phase`: those of transactions that are prepared, too. Topics `unclean` may lose what an unclean election says.
    """
    kinds = _IN_CLUSTERS
    if two_phase:
        kinds += (PreparedTransactionsEndAsDecided,)
    if model.name != _POWER_MODEL:
        kinds += (InSyncReplicasHaveWhatIsCommitted,)
    return [StatesGoForward(unclean), *(kind() for kind in kinds)]
