"""Events, replies and effects of a transaction shard. Field names are those of Kafka's messages.

An event with a token is a request; its reply may come later. The others bring what an effect has asked for.
"""

from __future__ import annotations

from kavka.core.machine import Decision, SendReply, Token
from kavka.core.transaction.records import TransactionRecord
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.values import frozen

# Requests


@frozen
class InitProducer:
    """InitProducerId with a transactional id. Id and epoch are those that the producer has, -1 for none (KIP-360).

    `enable_2pc`: transactions of this producer are never aborted because of their age, and `timeout_ms` does not count.
    `keep_prepared`: an open transaction is not aborted, but handed to the producer, which is to end it (KIP-939).
    """

    token: Token
    transactional_id: str
    timeout_ms: int
    producer_id: int = -1
    producer_epoch: int = -1
    enable_2pc: bool = False
    keep_prepared: bool = False


@frozen
class InitProducerReply:
    """The producer's id and its new epoch, and those under which the transaction continues that was kept for it."""

    error_code: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1


@frozen
class AddPartitions:
    """AddPartitionsToTxn, or AddOffsetsToTxn with the group's partition of `__consumer_offsets`.

    `client_transaction_version` is 2 when a partition's leader adds for its client (KIP-890, part 2), else 0.
    """

    token: Token
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    client_transaction_version: int = 0


@frozen
class AddPartitionsReply:
    """All partitions were added, or none."""

    error_code: ErrorCode


@frozen
class Verify:
    """AddPartitionsToTxn that only looks (`verify_only`)."""

    token: Token
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


@frozen
class VerifyReply:
    """For each partition, in the order of the request: NONE, TRANSACTION_ABORTABLE where it does not take part."""

    partitions: tuple[tuple[TopicPartition, ErrorCode], ...]


@frozen
class End:
    """EndTxn. `client_transaction_version` is 2 from version 5 on: the response has a new epoch, else 0."""

    token: Token
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    client_transaction_version: int = 0


@frozen
class EndReply:
    """The outcome is stored. Id and epoch of the next transaction are for version 5 on."""

    error_code: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1


# What effects have brought about


@frozen
class ProducerIdGiven:
    """Answers `NeedProducerId`."""

    transactional_id: str
    producer_id: int


@frozen
class ProducerIdRefused:
    """Answers `NeedProducerId`; `error` goes to the client."""

    transactional_id: str
    error: ErrorCode


@frozen
class MarkersWritten:
    """These partitions have the marker that `SendMarkers` named, or are deleted. Each is reported once."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


# Effects


@frozen
class NeedProducerId:
    """Allocate an unused producer id, then post `ProducerIdGiven`, else `ProducerIdRefused`.

    A transactional id asks for one at a time.
    """

    transactional_id: str


@frozen
class SendMarkers:
    """The outcome is stored: write the marker into each partition, retrying without limit, and post `MarkersWritten`.

    `partitions` is sorted and never empty.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int = 0
    """2 where the epoch is above that of all records of the transaction, else 0."""


@frozen
class TimedOut:
    """A transaction that lasted too long is aborted, and that is stored: the broker logs it."""

    transactional_id: str
    producer_id: int
    open_ms: int
    timeout_ms: int


# Reads that need no decision


@frozen
class DescribedTransaction:
    """A transactional id as DescribeTransactions shows it."""

    error_code: ErrorCode
    transactional_id: str
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    partitions: tuple[TopicPartition, ...] = ()
    """Sorted. Those that take part; of a transaction that is being completed, those without marker."""


@frozen
class ListedTransaction:
    """A transactional id as ListTransactions shows it."""

    transactional_id: str
    producer_id: int
    state: str


Request = InitProducer | AddPartitions | Verify | End
Event = Request | ProducerIdGiven | ProducerIdRefused | MarkersWritten
Reply = InitProducerReply | AddPartitionsReply | VerifyReply | EndReply
Effect = SendReply[Reply] | NeedProducerId | SendMarkers | TimedOut
TransactionDecision = Decision[TransactionRecord, Effect]
