"""State of a partition's idempotent producers: the batches it has, and those it may accept next.

Per producer id the partition keeps the producer epoch and the last five batches. A batch is taken when it continues the
last sequence, answered from memory when it is one of the five, and refused otherwise:

    no entry for the producer id           any sequence is taken (retention may have removed what went before)
    epoch older than the entry's           INVALID_PRODUCER_EPOCH
    epoch newer than the entry's           sequence 0 is taken, another is OUT_OF_ORDER_SEQUENCE_NUMBER
    same epoch, same first and last        `Duplicate`, with the offsets of the first writing
    same epoch, first = last written + 1   taken (0 follows 2147483647)
    same epoch, before all that a snapshot remembered    `Duplicate`, at an offset that is not known
    same epoch, anything else              OUT_OF_ORDER_SEQUENCE_NUMBER

A `.snapshot` has the last batch only. A producer with five in flight whose responses a restart took sends all of
them again, and refusing the first would make it renumber and write them twice; so they are answered as duplicates,
which clients take as success without an offset. (Kafka 3.9 refuses, and duplicates.) They may never have been
acknowledged, so acks=all waits for the replicas again: they are before the batch that the snapshot has.

Transactions: the entry has the first offset of the open one, and the state the order of all open ones; the oldest
begins at the first unstable offset. The batch that opens one is accepted when its coordinator has confirmed that the
partition belongs to it (KIP-890): a `Verification` begins before the request to the coordinator and is void when a
marker arrives meanwhile, so that no late batch can open a transaction that would never end. Until the first batch is in
the log, the lowest sequence seen is the only one taken. Sources: KIP-98, KIP-360, KIP-890; Kafka's `ProducerAppendInfo`
and `ProducerStateManager`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from kavka.errors import ErrorCode
from kavka.ids import NO_PRODUCER_ID
from kavka.wire.records.header import BatchHeader

NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1
BATCHES_TO_RETAIN: Final = 5
_LAST_SEQUENCE: Final = 2**31 - 1
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


class WrittenBatch(NamedTuple):
    """A batch that is in the log, as duplicates are recognised by."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int
    """Largest timestamp of the batch, milliseconds."""


class Duplicate(NamedTuple):
    """The batch is in the log already; the response carries what the first writing got."""

    base_offset: int
    """-1 when it is not known; DUPLICATE_SEQUENCE_NUMBER says so to clients."""
    last_offset: int
    """The batch ends here, or before."""
    timestamp: int


class ProducerEntry(NamedTuple):
    """One row of a `.snapshot` file: the last batch of a producer. No batch: sequence and offset are -1."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


class EndMarker(NamedTuple):
    """The content of a transaction's control batch."""

    committed: bool
    coordinator_epoch: int


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has ended; the aborted ones go to the transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the marker."""
    aborted: bool


class Verification:
    """The question whether a producer's transaction has this partition; it is void when the state has another one."""

    __slots__ = ("lowest_sequence", "producer_epoch", "raises_epoch", "started_ms")

    def __init__(
        self, producer_epoch: int, sequence: int, started_ms: int, raises_epoch: bool = False
    ) -> None:
        """Begin with the batch that is to be the first; with `raises_epoch` the end will be above its epoch."""
        self.producer_epoch = producer_epoch
        self.raises_epoch = raises_epoch
        self.lowest_sequence = sequence
        self.started_ms = started_ms


class _Producer:
    """The state of one producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "is_from_snapshot",
        "last_timestamp",
        "txn_first_offset",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        # Invariant: all of `epoch`, sequences without gaps, at most BATCHES_TO_RETAIN.
        self.batches: deque[WrittenBatch] = deque(maxlen=BATCHES_TO_RETAIN)
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.txn_first_offset = NO_OFFSET
        self.is_from_snapshot = False

    def move_to_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.is_from_snapshot = False


def advance_sequence(sequence: int, by: int) -> int:
    """Return the sequence number `by` after `sequence`; 0 follows 2147483647."""
    return (sequence + by) & _LAST_SEQUENCE


class ProducerState:
    """The producers of one partition. The leader calls `check` before it appends and `appended` after."""

    def __init__(self) -> None:
        """Begin with the state of an empty log."""
        self._producers: dict[int, _Producer] = {}
        # First offset of every open transaction. Invariant: in ascending order, because a transaction is
        # entered when its first batch is appended.
        self._open_txns: dict[int, int] = {}
        # Ended, but the marker may be above the high watermark: first offset -> offset of the marker.
        self._unreplicated_txns: dict[int, int] = {}
        self._verifications: dict[int, Verification] = {}

    def __len__(self) -> int:
        """Return how many producer ids are known."""
        return len(self._producers)

    def knows(self, producer_id: int) -> bool:
        """Return whether anything of a producer id is remembered."""
        return producer_id in self._producers

    def coordinator_epoch(self, producer_id: int) -> int:
        """Return the newest coordinator epoch of a producer's markers, -1 without any."""
        producer = self._producers.get(producer_id)
        return -1 if producer is None else producer.coordinator_epoch

    # Appending

    def check(self, header: BatchHeader) -> ErrorCode | Duplicate | None:
        """Judge a batch that a client produced; None takes it. Batches without producer id are always taken."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        epoch, base = header.producer_epoch, header.base_sequence
        if epoch == producer.epoch:
            batches = producer.batches
            last_sequence = batches[-1].last_sequence if batches else NO_SEQUENCE
            if base != (last_sequence + 1) & _LAST_SEQUENCE:
                return _find_duplicate(producer, header) or _out_of_order(producer, header)
        elif epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        elif base != 0 and producer.epoch != NO_EPOCH:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if producer.txn_first_offset >= 0 and not header.attributes & _TRANSACTIONAL:
            return ErrorCode.INVALID_TXN_STATE
        return None

    def check_coordinator(self, producer_id: int, producer_epoch: int) -> ErrorCode | None:
        """Judge a transactional batch that a group coordinator appends; it carries no sequence."""
        producer = self._producers.get(producer_id)
        if producer is not None and producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return None

    def check_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        raises_epoch: bool = False,
    ) -> ErrorCode | None:
        """Judge a transaction marker that a coordinator wants to append.

        With `raises_epoch` it is above all that its transaction has written: what is open in its own epoch is the
        next one, and it comes a second time, late (KIP-1228).
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        if producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        is_of_the_epoch = producer_epoch == producer.epoch
        if raises_epoch and is_of_the_epoch and producer.txn_first_offset >= 0:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return None

    def appended(self, header: BatchHeader, base_offset: int) -> None:
        """Remember a data batch that now stands at `base_offset`; batches without producer id leave no trace."""
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID:
            return
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = _Producer(header.producer_epoch)
        else:
            producer.move_to_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        base_sequence = header.base_sequence
        last_sequence = (
            NO_SEQUENCE if base_sequence < 0 else (base_sequence + delta) & _LAST_SEQUENCE
        )
        timestamp = header.max_timestamp
        batch = (base_sequence, last_sequence, base_offset, base_offset + delta, timestamp)
        producer.batches.append(tuple.__new__(WrittenBatch, batch))
        producer.last_timestamp = timestamp
        if header.attributes & _TRANSACTIONAL and producer.txn_first_offset < 0:
            producer.txn_first_offset = base_offset
            self._open_txns[base_offset] = producer_id
            self._verifications.pop(producer_id, None)

    def marker_appended(
        self, header: BatchHeader, base_offset: int, marker: EndMarker
    ) -> CompletedTransaction | None:
        """Remember a transaction's marker; None when the producer had nothing open here."""
        self._marker_voids(header.producer_id, header.producer_epoch)
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = self._producers[header.producer_id] = _Producer(header.producer_epoch)
        else:
            producer.move_to_epoch(header.producer_epoch)
        producer.coordinator_epoch = max(producer.coordinator_epoch, marker.coordinator_epoch)
        producer.last_timestamp = header.max_timestamp
        first_offset = producer.txn_first_offset
        if first_offset < 0:
            return None
        producer.txn_first_offset = NO_OFFSET
        del self._open_txns[first_offset]
        self._unreplicated_txns[first_offset] = base_offset
        aborted = not marker.committed
        return CompletedTransaction(header.producer_id, first_offset, base_offset, aborted)

    def replay(
        self, header: BatchHeader, marker: EndMarker | None = None
    ) -> CompletedTransaction | None:
        """Remember a batch read back from the log, without judging it.

        The control batch of a transaction comes with its `marker`; others (no producer id) leave no trace.
        """
        if not header.attributes & _CONTROL:
            self.appended(header, header.base_offset)
            return None
        if header.producer_id == NO_PRODUCER_ID:
            return None
        assert marker is not None, "the control batch of a transaction is replayed with its marker"
        return self.marker_appended(header, header.base_offset, marker)

    # Transactions

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether the producer, in this epoch, has written to a transaction that has not ended here."""
        producer = self._producers.get(producer_id)
        if producer is None or producer.txn_first_offset < 0:
            return False
        return producer.epoch == producer_epoch

    def begin_verification(
        self,
        producer_id: int,
        producer_epoch: int,
        sequence: int,
        now_ms: int,
        *,
        raises_epoch: bool = False,
    ) -> Verification:
        """Return what the first batch of a transaction needs to be appended, once its coordinator has agreed.

        Those that come before the first one is in the log share it: the lowest sequence goes first.
        """
        found = self._verifications.get(producer_id)
        if found is None or found.producer_epoch < producer_epoch:
            found = Verification(producer_epoch, sequence, now_ms, raises_epoch)
            self._verifications[producer_id] = found
        elif found.producer_epoch == producer_epoch:
            found.lowest_sequence = min(found.lowest_sequence, sequence)
        return found

    def void_verification(self, producer_id: int) -> None:
        """Void the verification in progress, whose transaction a marker may end that has not raised the epoch."""
        self._verifications.pop(producer_id, None)

    def _marker_voids(self, producer_id: int, marker_epoch: int) -> None:
        """Void the verification in progress of the transaction that a marker ends.

        Where the end raises the epoch, a marker of the very epoch is of the transaction before: a producer continues as
        soon as that is decided, so its first batch may be here before that marker.
        """
        found = self._verifications.get(producer_id)
        if found is None or (found.raises_epoch and marker_epoch == found.producer_epoch):
            return
        self.void_verification(producer_id)

    def is_valid(self, producer_id: int, verification: Verification) -> bool:
        """Return whether nothing has happened since that makes the coordinator's response worthless."""
        return self._verifications.get(producer_id) is verification

    def check_verified(
        self, header: BatchHeader, verification: Verification | None
    ) -> ErrorCode | None:
        """Check a transactional batch of a client against its coordinator's response; None accepts it.

        With NOT_ENOUGH_REPLICAS the producer sends it again: a leader that adds partitions repeats a void request.
        """
        producer_id = header.producer_id
        if self.has_open_transaction(producer_id, header.producer_epoch):
            return None
        if verification is None or not self.is_valid(producer_id, verification):
            adds = verification is not None and verification.raises_epoch
            return ErrorCode.NOT_ENOUGH_REPLICAS if adds else ErrorCode.INVALID_TXN_STATE
        if header.base_sequence > verification.lowest_sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return None

    @property
    def oldest_open_transaction(self) -> int | None:
        """The first offset of the oldest transaction without marker."""
        return next(iter(self._open_txns), None)

    @property
    def open_transactions(self) -> Collection[int]:
        """The first offsets of the transactions without marker, the oldest first."""
        return self._open_txns.keys()

    @property
    def has_transactions(self) -> bool:
        """Return whether a transaction is open, or has ended with a marker that is not replicated yet."""
        return bool(self._open_txns or self._unreplicated_txns)

    def first_unstable_offset(self) -> int | None:
        """Return the first offset of the oldest transaction that is open or has an unreplicated marker."""
        if not self._open_txns and not self._unreplicated_txns:
            return None
        oldest_open = self.oldest_open_transaction
        # Ended transactions leave in the order of their markers, not of their beginnings.
        oldest_ended = min(self._unreplicated_txns, default=None)
        if oldest_open is None or oldest_ended is None:
            return oldest_ended if oldest_open is None else oldest_open
        return min(oldest_open, oldest_ended)

    def high_watermark_advanced(self, high_watermark: int) -> None:
        """Drop ended transactions with a marker below the high watermark: readers may pass them."""
        if self._unreplicated_txns:
            done = [f for f, last in self._unreplicated_txns.items() if last < high_watermark]
            for first_offset in done:
                del self._unreplicated_txns[first_offset]

    # Keeping

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Drop producers without writes for `producer.id.expiration.ms` and without open transaction; return how many.

        A verification as old as that is void, too.
        """
        self._verifications = {
            producer_id: found
            for producer_id, found in self._verifications.items()
            if now_ms - found.started_ms < expiration_ms
        }
        expired = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.txn_first_offset < 0 and now_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def clear(self) -> None:
        """Forget everything: the log was truncated, and is replayed from a snapshot."""
        self._producers.clear()
        self._open_txns.clear()
        self._unreplicated_txns.clear()
        self._verifications.clear()

    def entries(self) -> list[ProducerEntry]:
        """Return the rows of a `.snapshot` file: the last batch of each producer."""
        return [_entry(producer_id, p) for producer_id, p in self._producers.items()]

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Replace everything by the rows of a `.snapshot` file."""
        self.clear()
        open_txns: list[tuple[int, int]] = []
        for entry in entries:
            producer = self._producers[entry.producer_id] = _Producer(entry.producer_epoch)
            producer.last_timestamp = entry.timestamp
            producer.coordinator_epoch = entry.coordinator_epoch
            producer.txn_first_offset = entry.current_txn_first_offset
            if entry.last_offset >= 0:
                producer.batches.append(_last_batch(entry))
                producer.is_from_snapshot = True
            if entry.current_txn_first_offset >= 0:
                open_txns.append((entry.current_txn_first_offset, entry.producer_id))
        self._open_txns.update(sorted(open_txns))


def _find_duplicate(producer: _Producer, header: BatchHeader) -> Duplicate | None:
    base_sequence = header.base_sequence
    for batch in producer.batches:
        if batch.base_sequence == base_sequence:
            if batch.last_sequence != advance_sequence(base_sequence, header.last_offset_delta):
                return None
            return Duplicate(batch.base_offset, batch.last_offset, batch.timestamp)
    return None


def _out_of_order(producer: _Producer, header: BatchHeader) -> ErrorCode | Duplicate:
    """Judge a sequence that is neither the next one nor remembered."""
    batches = producer.batches
    if producer.is_from_snapshot and 0 < len(batches) < BATCHES_TO_RETAIN:
        ahead = (batches[0].base_sequence - 1 - header.last_sequence) & _LAST_SEQUENCE
        if ahead < _LAST_SEQUENCE // 2:
            return Duplicate(NO_OFFSET, batches[0].base_offset - 1, NO_OFFSET)
    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def _entry(producer_id: int, producer: _Producer) -> ProducerEntry:
    if producer.batches:
        last = producer.batches[-1]
        sequence, offset, delta = (
            last.last_sequence,
            last.last_offset,
            last.last_offset - last.base_offset,
        )
    else:
        sequence, offset, delta = NO_SEQUENCE, NO_OFFSET, 0
    return ProducerEntry(
        producer_id,
        producer.epoch,
        sequence,
        offset,
        delta,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.txn_first_offset,
    )


def _last_batch(entry: ProducerEntry) -> WrittenBatch:
    base_sequence = NO_SEQUENCE
    if entry.last_sequence >= 0:
        base_sequence = (entry.last_sequence - entry.offset_delta) & _LAST_SEQUENCE
    return WrittenBatch(
        base_sequence,
        entry.last_sequence,
        entry.last_offset - entry.offset_delta,
        entry.last_offset,
        entry.timestamp,
    )
