"""Timers of a transaction shard.

Transactions that are open for too long are looked for every `abort_timed_out_interval_ms`, but only while one is open.
Unused ids are looked for every `remove_expired_interval_ms`, some at a time. Ends that are to be written, or
written again, have a time of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from kavka.core.transaction.records import StoredTransaction, TransactionState
from kavka.core.transaction.settings import NO_TIMEOUT_MS, TransactionSettings
from kavka.core.transaction.transaction import Transaction

AT_ONCE_MS = -(2**62)
_IDS_PER_CHECK = 200  # one tick of the check for expired ids checks no more than these
# Nor does it check more ids when they are this long together, for what it finds goes into one batch: a batch above
# `max.message.bytes` would be refused at every check. An id has less than 32 KiB, so less than 64 KiB go into one.
_BYTES_PER_CHECK = 32 * 1024


class Timers:
    """The times of one shard. Entries that have become void are found when they come up."""

    def __init__(self) -> None:
        """Create timers that `start` sets."""
        self._completions: list[tuple[int, str]] = []
        # When ends that are owed are written, if no other record takes them along. Invariant: times ascend.
        self._owed: dict[str, int] = {}
        # (when the transaction has had its time, id), of open ones. An entry counts while it is its id's `_watched`:
        # a later transaction of the same id needs no other entry, and is found when this one comes up.
        self._timeouts: list[tuple[int, str]] = []
        self._watched: dict[str, int] = {}
        self._timed_out: list[str] = []  # found by the present check
        self._next_timeout_check_ms = AT_ONCE_MS
        self._to_expire: list[str] = []  # left to check by the present check
        self._next_expiry_check_ms: int | None = None
        self.is_earlier = True
        """True if `deadline_ms` may be before what it was when it was asked for last."""

    def start(self, now_ms: int, settings: TransactionSettings) -> None:
        """Begin to look for expired ids."""
        self.is_earlier = True
        self._next_expiry_check_ms = now_ms + settings.remove_expired_interval_ms

    def deadline_ms(self) -> int | None:
        """Return when there is something to do; None is never."""
        self.is_earlier = False
        if self._timed_out:
            return AT_ONCE_MS
        first_ms = self._next_expiry_check_ms
        if self._completions and (first_ms is None or self._completions[0][0] < first_ms):
            first_ms = self._completions[0][0]
        if self._owed:
            due_ms = next(iter(self._owed.values()))
            if first_ms is None or due_ms < first_ms:
                first_ms = due_ms
        if self._timeouts:
            due_ms = max(self._next_timeout_check_ms, self._timeouts[0][0] + 1)
            if first_ms is None or due_ms < first_ms:
                first_ms = due_ms
        return first_ms

    # Ends to be written

    def complete_at(self, transaction: Transaction, due_ms: int) -> None:
        """Schedule the writing of a transaction's end, if it is still to be written."""
        self.is_earlier = True
        heappush(self._completions, (due_ms, transaction.transactional_id))

    def next_completion(self, now_ms: int) -> str | None:
        """Take the next id with a due end."""
        if self._completions and self._completions[0][0] <= now_ms:
            return heappop(self._completions)[1]
        return None

    def owe(self, transactional_id: str, due_ms: int) -> None:
        """Schedule the writing of an end that can wait; no earlier than those before it."""
        self.is_earlier = self.is_earlier or not self._owed
        self._owed[transactional_id] = due_ms

    def settle(self, transactional_id: str) -> None:
        """Note that an end that was owed is on its way."""
        self._owed.pop(transactional_id, None)

    def take_owed(self, now_ms: int | None) -> list[str]:
        """Take ids with an end that is due, or of all that are owed, as many as go into one batch."""
        taken: list[str] = []
        size = 0
        for transactional_id, due_ms in self._owed.items():
            is_due = now_ms is None or due_ms <= now_ms
            if not is_due or len(taken) >= _IDS_PER_CHECK or size >= _BYTES_PER_CHECK:
                break
            taken.append(transactional_id)
            size += len(transactional_id)
        for transactional_id in taken:
            del self._owed[transactional_id]
        return taken

    # Transactions open for too long

    def time_out(self, transactional_id: str, value: StoredTransaction) -> None:
        """Schedule the check of an open transaction's timeout."""
        if value.timeout_ms == NO_TIMEOUT_MS:
            return
        deadline_ms = value.start_ms + value.timeout_ms
        if deadline_ms < self._watched.get(transactional_id, deadline_ms + 1):
            self._watched[transactional_id] = deadline_ms
            self.is_earlier = True
            heappush(self._timeouts, (deadline_ms, transactional_id))

    def next_timed_out(
        self, transactions: dict[str, Transaction], now_ms: int, settings: TransactionSettings
    ) -> Transaction | None:
        """Take the next transaction to be aborted; one that is busy is checked again by the next check."""
        if not self._timed_out and now_ms >= self._next_timeout_check_ms:
            self._begin_timeout_check(now_ms, settings)
        while self._timed_out:
            transaction = transactions.get(self._timed_out.pop())
            value = None if transaction is None else transaction.value
            if transaction is None or value is None or value.state is not TransactionState.ONGOING:
                continue
            if value.start_ms + value.timeout_ms < now_ms and not transaction.is_busy:
                return transaction
            self.time_out(transaction.transactional_id, value)
        return None

    def _begin_timeout_check(self, now_ms: int, settings: TransactionSettings) -> None:
        while self._timeouts and self._timeouts[0][0] < now_ms:
            deadline_ms, transactional_id = heappop(self._timeouts)
            if self._watched.get(transactional_id) == deadline_ms:
                del self._watched[transactional_id]
                self._timed_out.append(transactional_id)
            self._next_timeout_check_ms = now_ms + settings.abort_timed_out_interval_ms

    # Unused ids

    def expired(
        self, transactions: dict[str, Transaction], now_ms: int, settings: TransactionSettings
    ) -> Iterable[Transaction]:
        """Return ids, a few at a time, that may be forgotten."""
        if self._next_expiry_check_ms is None or now_ms < self._next_expiry_check_ms:
            return []
        if not self._to_expire:
            self._to_expire = list(transactions)
        looked_at = self._next_to_expire()
        if not self._to_expire:
            self._next_expiry_check_ms = now_ms + settings.remove_expired_interval_ms
        found = (transactions.get(one) for one in looked_at)
        return [one for one in found if one is not None and _has_expired(one, now_ms, settings)]

    def _next_to_expire(self) -> list[str]:
        taken: list[str] = []
        size = 0
        while self._to_expire and len(taken) < _IDS_PER_CHECK and size < _BYTES_PER_CHECK:
            transactional_id = self._to_expire.pop()
            taken.append(transactional_id)
            size += len(transactional_id.encode())
        return taken


def _has_expired(transaction: Transaction, now_ms: int, settings: TransactionSettings) -> bool:
    value = transaction.value
    return (
        value is not None
        and not value.state.is_open
        and not transaction.is_busy
        and value.last_update_ms <= now_ms - settings.expiration_ms
    )
