"""Transactions: transactional ids with their state, and what partitions hold open. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kavka.client.admin.hanging_transactions import Open
from kavka.client.admin.transactions import TransactionDescription, TransactionListing
from kavka.console.sentences import Sentence, as_is
from kavka.console.views.brokers import Unanswered
from kavka.console.views.paging import Paging, searched
from kavka.errors import KafkaError
from kavka.ids import BrokerId

ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
"""States without an open transaction."""


@dataclass(frozen=True, slots=True)
class PartitionName:
    """A partition."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A transactional id; times are null without an open transaction, and where `note` says why."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int
    is_open: bool
    start_time_ms: int | None
    duration_s: float | None
    timeout_ms: int | None
    partitions: int | None
    note: Sentence


@dataclass(frozen=True, slots=True)
class TransactionList:
    """One page of the transactional ids that match, those with an open transaction first."""

    rows: list[TransactionRow]
    paging: Paging
    total: int
    open: int
    search: str
    state: str
    states: list[str]
    unanswered: list[Unanswered]
    """The brokers whose transactional ids are missing."""


@dataclass(frozen=True, slots=True)
class TransactionView:
    """A transactional id and the partitions of its open transaction."""

    transactional_id: str
    state: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    is_open: bool
    start_time_ms: int | None
    duration_s: float | None
    is_late: bool
    """The transaction has been open for longer than its timeout."""
    partitions: list[PartitionName]


Listed = tuple[BrokerId, TransactionListing]


def sorted_listings(
    found: Mapping[BrokerId, Iterable[TransactionListing]], search: str, state: str
) -> tuple[list[Listed], list[str], int]:
    """Return listings that match, the states that there are, and how many ids have an open transaction."""
    every = [(broker, one) for broker, listed in found.items() for one in listed]
    states = sorted({one.state for _, one in every})
    has_words = searched(search)
    chosen = [
        (broker, one)
        for broker, one in every
        if has_words(one.transactional_id) and (not state or one.state == state)
    ]
    chosen.sort(key=lambda each: (each[1].state in ENDED, each[1].transactional_id))
    return chosen, states, sum(one.state not in ENDED for _, one in every)


def transaction_row(
    listed: Listed, described: TransactionDescription | Exception, now_ms: int
) -> TransactionRow:
    """Return the row of a transactional id."""
    broker, one = listed
    known = described if isinstance(described, TransactionDescription) else None
    start = None if known is None else known.start_time_ms
    state = one.state if known is None else known.state
    return TransactionRow(
        transactional_id=one.transactional_id,
        state=state,
        producer_id=one.producer_id,
        coordinator=int(broker),
        is_open=state not in ENDED,
        start_time_ms=start,
        duration_s=_since(start, now_ms),
        timeout_ms=None if known is None else known.timeout_ms,
        partitions=None if known is None else len(known.partitions),
        note=as_is("" if known is not None else _reason(described)),
    )


def _reason(error: object) -> str:
    return error.code.name if isinstance(error, KafkaError) else str(error) or type(error).__name__


def _since(start_ms: int | None, now_ms: int) -> float | None:
    return None if start_ms is None else max(now_ms - start_ms, 0) / 1000


def transaction_view(name: str, found: TransactionDescription, now_ms: int) -> TransactionView:
    """Return a transactional id."""
    start = found.start_time_ms
    return TransactionView(
        transactional_id=name,
        state=found.state,
        coordinator=int(found.coordinator_id),
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.timeout_ms,
        is_open=found.state not in ENDED,
        start_time_ms=start,
        duration_s=_since(start, now_ms),
        is_late=start is not None and now_ms - start > found.timeout_ms,
        partitions=[PartitionName(*key) for key in sorted(found.partitions)],
    )


@dataclass(frozen=True, slots=True)
class HangingRow:
    """A transaction that a partition holds open and no coordinator will end."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    start_offset: int
    last_timestamp_ms: int
    idle_s: float


@dataclass(frozen=True, slots=True)
class HangingList:
    """The hanging transactions that a search has found."""

    is_searched: bool
    topic: str
    minutes: int
    rows: list[HangingRow]


def hanging_row(found: Open, now_ms: int) -> HangingRow:
    """Return the row of a hanging transaction."""
    key, producer = found
    assert producer.current_transaction_start_offset is not None, "it is open"
    return HangingRow(
        topic=key.topic,
        partition=key.partition,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=producer.coordinator_epoch,
        start_offset=producer.current_transaction_start_offset,
        last_timestamp_ms=producer.last_timestamp_ms,
        idle_s=max(now_ms - producer.last_timestamp_ms, 0) / 1000,
    )


@dataclass(frozen=True, slots=True)
class AbortView:
    """An open transaction of one partition, and what its abort does."""

    topic: str
    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    last_timestamp_ms: int
    confirmation: str
    """The text that confirms the abort."""
