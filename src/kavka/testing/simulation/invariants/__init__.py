"""What must hold in every run, one class for each promise.

An invariant sees the events of a run one by one and raises `Violation` at the first that breaks its promise. It
knows nothing of brokers: only what users can see.
"""

from __future__ import annotations

from kavka.testing.simulation.faults import Durability, FaultModel
from kavka.testing.simulation.invariants.acknowledged import AcknowledgedRecordsSurvive
from kavka.testing.simulation.invariants.contiguous import OffsetsHaveNoGaps
from kavka.testing.simulation.invariants.duplicates import IdempotentProducersNeverDuplicate
from kavka.testing.simulation.invariants.groups import (
    CommittedOffsetsStay,
    CommittedRecordsWereProcessed,
    OneOwnerPerPartition,
)
from kavka.testing.simulation.invariants.history import RecordsNeverChange
from kavka.testing.simulation.invariants.invariant import Invariant, Violation
from kavka.testing.simulation.invariants.order import RecordsKeepTheirOrder
from kavka.testing.simulation.invariants.watermark import HighWatermarkOnlyGrows

__all__ = ["Invariant", "Violation", "for_model"]

_ALWAYS: tuple[type[Invariant], ...] = (
    OffsetsHaveNoGaps,
    RecordsKeepTheirOrder,
    OneOwnerPerPartition,
    CommittedRecordsWereProcessed,
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
    if model.durability is Durability.EVERYTHING_ACKNOWLEDGED:
        kinds += _IF_NOTHING_IS_LOST
    return [kind() for kind in kinds]
