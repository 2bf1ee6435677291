"""Each invariant by itself: what it accepts, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kavka.ids import TopicPartition
from kavka.simulation.events import (
    Acknowledged,
    Assigned,
    Audited,
    Committed,
    CommittedSeen,
    Deleted,
    Event,
    PositionReset,
    PowerLost,
    Processed,
    Read,
    Sent,
    WatermarkSeen,
)
from kavka.simulation.faults import POWER, POWER_WITH_FLUSH, PROCESSES, FaultModel
from kavka.simulation.invariants import Invariant, Violation, for_model
from kavka.simulation.invariants.acknowledged import AcknowledgedRecordsSurvive
from kavka.simulation.invariants.contiguous import OffsetsHaveNoGaps
from kavka.simulation.invariants.duplicates import IdempotentProducersNeverDuplicate
from kavka.simulation.invariants.groups import (
    CommittedOffsetsStay,
    CommittedRecordsWereProcessed,
    OneOwnerPerPartition,
)
from kavka.simulation.invariants.history import RecordsNeverChange
from kavka.simulation.invariants.order import RecordsKeepTheirOrder
from kavka.simulation.invariants.watermark import HighWatermarkOnlyGrows

T0 = TopicPartition("t", 0)


def see(kind: type[Invariant], *events: Event) -> None:
    show(kind(), events)


def show(invariant: Invariant, events: Iterable[Event]) -> None:
    for event in events:
        invariant.observe(event)


def audit(*values: bytes, start: int = 0, end: int | None = None) -> Audited:
    records = tuple(enumerate(values, start))
    return Audited(T0, start, start + len(values) if end is None else end, records)


HOLDS: list[tuple[type[Invariant], list[Event]]] = [
    (AcknowledgedRecordsSurvive, [Acknowledged("p", T0, 0, b"a"), audit(b"a")]),
    (AcknowledgedRecordsSurvive, [Acknowledged("p", T0, -1, b"a"), audit(b"a")]),
    (
        AcknowledgedRecordsSurvive,
        [Acknowledged("p", T0, 0, b"a"), Deleted(T0, 1), audit(b"b", start=1)],
    ),
    (OffsetsHaveNoGaps, [Read("r", T0, 4, b""), Read("r", T0, 5, b""), audit(b"a", start=3)]),
    (OffsetsHaveNoGaps, [Read("r", T0, 4, b""), PositionReset("r", T0), Read("r", T0, 9, b"")]),
    (OffsetsHaveNoGaps, [Read("r", T0, 4, b""), PowerLost("b"), Read("r", T0, 2, b"")]),
    (IdempotentProducersNeverDuplicate, [audit(b"a", b"b")]),
    (RecordsKeepTheirOrder, [Sent("p", T0, 0, b"a"), Sent("p", T0, 1, b"b"), audit(b"a", b"b")]),
    (RecordsNeverChange, [Read("r", T0, 0, b"a"), Read("s", T0, 0, b"a"), audit(b"a")]),
    (HighWatermarkOnlyGrows, [WatermarkSeen("r", T0, 1), Read("r", T0, 0, b"a"), audit(b"a")]),
    (OneOwnerPerPartition, [Assigned("g", "m", 1, (T0,)), Assigned("g", "n", 2, (T0,))]),
    (CommittedOffsetsStay, [Committed("g", "m", T0, 5, 1.0), CommittedSeen("g", T0, 5, 2.0)]),
    (CommittedOffsetsStay, [Committed("g", "m", T0, 5, 2.0), CommittedSeen("g", T0, 3, 1.0)]),
    (
        CommittedRecordsWereProcessed,
        [Processed("g", "m", T0, 0, b"a"), Committed("g", "m", T0, 1, 1.0), audit(b"a", b"b")],
    ),
]

BREAKS: list[tuple[type[Invariant], list[Event]]] = [
    (AcknowledgedRecordsSurvive, [Acknowledged("p", T0, 0, b"a"), audit()]),
    (AcknowledgedRecordsSurvive, [Acknowledged("p", T0, 0, b"a"), audit(b"b")]),
    (AcknowledgedRecordsSurvive, [Acknowledged("p", T0, -1, b"a"), audit(b"b")]),
    (AcknowledgedRecordsSurvive, [Acknowledged("p", T0, 0, b"a"), Acknowledged("q", T0, 0, b"b")]),
    (AcknowledgedRecordsSurvive, [Deleted(T0, 1), audit(start=2)]),
    (OffsetsHaveNoGaps, [Read("r", T0, 4, b""), Read("r", T0, 6, b"")]),
    (OffsetsHaveNoGaps, [Read("r", T0, 4, b""), Read("r", T0, 4, b"")]),
    (OffsetsHaveNoGaps, [audit(b"a", end=2)]),
    (IdempotentProducersNeverDuplicate, [audit(b"a", b"b", b"a")]),
    (RecordsKeepTheirOrder, [Sent("p", T0, 0, b"a"), Sent("p", T0, 1, b"b"), audit(b"b", b"a")]),
    (RecordsKeepTheirOrder, [audit(b"from nowhere")]),
    (RecordsNeverChange, [Read("r", T0, 0, b"a"), Read("s", T0, 0, b"b")]),
    (RecordsNeverChange, [Read("r", T0, 0, b"a"), audit(b"b")]),
    (HighWatermarkOnlyGrows, [WatermarkSeen("r", T0, 5), WatermarkSeen("r", T0, 4)]),
    (HighWatermarkOnlyGrows, [WatermarkSeen("r", T0, 5), Read("r", T0, 5, b"a")]),
    (HighWatermarkOnlyGrows, [WatermarkSeen("r", T0, 5), audit(b"a")]),
    (OneOwnerPerPartition, [Assigned("g", "m", 1, (T0,)), Assigned("g", "n", 1, (T0,))]),
    (CommittedOffsetsStay, [Committed("g", "m", T0, 5, 1.0), CommittedSeen("g", T0, 4, 2.0)]),
    (CommittedOffsetsStay, [Committed("g", "m", T0, 5, 1.0), CommittedSeen("g", T0, None, 2.0)]),
    (CommittedRecordsWereProcessed, [Committed("g", "m", T0, 1, 1.0), audit(b"a")]),
]


@pytest.mark.parametrize(("kind", "events"), HOLDS)
def test_what_is_promised_is_accepted(kind: type[Invariant], events: list[Event]) -> None:
    see(kind, *events)


@pytest.mark.parametrize(("kind", "events"), BREAKS)
def test_what_breaks_the_promise_is_refused(kind: type[Invariant], events: list[Event]) -> None:
    with pytest.raises(Violation):
        see(kind, *events)


def test_every_invariant_is_seen_to_break_and_to_hold() -> None:
    kinds = {type(invariant) for invariant in for_model(PROCESSES)}
    assert {kind for kind, _ in BREAKS} == kinds == {kind for kind, _ in HOLDS}


def test_losing_power_without_syncing_promises_less() -> None:
    fewer = {type(invariant) for invariant in for_model(POWER)}
    assert AcknowledgedRecordsSurvive not in fewer
    assert OffsetsHaveNoGaps in fewer


PROCESSED_A: list[Event] = [Processed("g", "m", T0, 0, b"a"), Committed("g", "m", T0, 2, 1.0)]
REPLACED: list[Event] = [*PROCESSED_A, PowerLost("b"), Sent("p", T0, 0, b"new"), audit(b"new")]


def test_what_came_in_the_place_of_records_that_power_lost_need_not_be_processed() -> None:
    """A group's offset may survive a loss that its records did not: broker seed 300."""
    for invariant in for_model(POWER):
        show(invariant, REPLACED)


@pytest.mark.parametrize(
    ("model", "events"),
    [
        pytest.param(POWER_WITH_FLUSH, REPLACED, id="all was synced"),
        pytest.param(POWER, [*PROCESSED_A, audit(b"new")], id="without a loss of power"),
        pytest.param(POWER, [PowerLost("b"), *REPLACED[:2], audit(b"new")], id="a loss before"),
        pytest.param(POWER, [*REPLACED[:-1], audit(b"a", b"new")], id="a place without a record"),
    ],
)
def test_a_loss_of_power_excuses_nothing_else(model: FaultModel, events: list[Event]) -> None:
    (invariant,) = (i for i in for_model(model) if isinstance(i, CommittedRecordsWereProcessed))
    with pytest.raises(Violation):
        show(invariant, events)
