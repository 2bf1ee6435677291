"""Records in a shard's log: the state of each transactional id.

Pure values; `kavka.wire.stored.transactions` has their bytes. A record with the value None is a tombstone.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from kavka.ids import TopicPartition
from kavka.values import frozen

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class Identity(NamedTuple):
    """The id and epoch with which a producer proves that it is the latest owner of its transactional id."""

    producer_id: int
    producer_epoch: int


class TransactionState(IntEnum):
    """The states, by the numbers that `__transaction_state` stores."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def title(self) -> str:
        """The name that DescribeTransactions and ListTransactions show, such as `PrepareCommit`."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        """Return whether the outcome is decided and markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_open(self) -> bool:
        """Return whether a transaction is in progress or being completed."""
        return self is TransactionState.ONGOING or self.is_prepared


@frozen
class StoredTransaction:
    """The state of a transactional id and of its last transaction. Times are milliseconds since 1970."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    """Those that take part; empty unless the transaction is open."""
    last_update_ms: int
    start_ms: int = -1
    """Start time of the transaction; -1 before the first."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The id before this one, while `client_transaction_version` is 2 and its epochs have just run out."""
    next_producer_id: int = NO_PRODUCER_ID
    """The id that follows when this transaction is complete: the epochs of this one have run out (KIP-890).

    Of a transaction that was kept, the id of the client that is to end it, which may be the same (KIP-939).
    """
    client_transaction_version: int = 0
    """2 when the client ends its transactions with a new epoch each (KIP-890, part 2), else 0."""
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch that goes with `next_producer_id`; -1 stands for 0."""

    @property
    def is_kept(self) -> bool:
        """Return whether another client has taken over the open transaction, to end it and nothing else (KIP-939)."""
        is_ongoing = self.state is TransactionState.ONGOING
        return is_ongoing and self.next_producer_id != NO_PRODUCER_ID

    @property
    def client(self) -> Identity:
        """Return the producer id and epoch that may send requests now."""
        return self.successor if self.is_kept else Identity(self.producer_id, self.producer_epoch)

    @property
    def successor(self) -> Identity:
        """Return the producer id and epoch after this transaction is complete."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return Identity(self.producer_id, self.producer_epoch)
        return Identity(self.next_producer_id, max(0, self.next_producer_epoch))


@frozen
class TransactionRecord:
    """The state of a transactional id, or its end."""

    transactional_id: str
    value: StoredTransaction | None
