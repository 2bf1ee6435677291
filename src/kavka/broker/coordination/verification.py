"""Partition leaders ask coordinators before the first batch of a transaction is appended (KIP-890).

    Produce --> transaction open here? --yes--------------------------------------------> appended
                       '--no--> waits --> AddPartitionsToTxn (verify_only) --> takes part? --'
                                              to its coordinator                 '--no--> refused

So a batch that comes late, after its transaction has ended, cannot open one that would never end. For a producer of
version 2 the leader does not verify, but adds: its first batch comes without an announced partition.

Batches of one producer and partition are appended in the order in which they came, whichever of them waits. What is
asked, and what the responses mean, is decided in `kavka.core.verification`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from kavka.broker.context import BrokerContext
from kavka.broker.coordination.transaction_coordinators import TransactionCoordinators
from kavka.broker.coordination.verification_channel import VerificationChannel
from kavka.broker.partitions.replica import UNVERIFIED, AppendOutcome, Replica
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.partitions.traffic import count_refused_produce
from kavka.core.machine import Token
from kavka.core.producer_state import Verification
from kavka.core.transaction.events import AddPartitionsReply
from kavka.core.verification.events import VerificationRequest
from kavka.core.verification.outcomes import (
    BegunVerification,
    code_for_batches,
    code_for_offsets,
    refusal,
)
from kavka.errors import ErrorCode
from kavka.wire.records.batch_check import BatchCheck
from kavka.wire.records.header import BatchHeader

log = logging.getLogger(__name__)

_FIRST_THAT_ADDS: Final = 12


class _Waiting(NamedTuple):
    """A batch that is appended, or refused, when the coordinator has answered."""

    replica: Replica
    begun: BegunVerification
    batch: tuple[memoryview | BatchCheck, int, int]
    future: asyncio.Future[AppendOutcome]


class Verifier:
    """Verifies what clients produce, and commit, in transactions."""

    def __init__(
        self,
        context: BrokerContext,
        replica_manager: ReplicaManager,
        transactions: TransactionCoordinators,
    ) -> None:
        """Start without connections."""
        self._context = context
        self._replica_manager = replica_manager
        self._transactions = transactions
        self._channel = VerificationChannel(context, transactions, self._ended)
        self._batches: dict[Token, _Waiting] = {}
        self._offsets: dict[Token, asyncio.Future[ErrorCode]] = {}

    async def stop(self) -> None:
        """Stop; pending appends are refused."""
        await self._channel.stop()

    # -- batches

    def append(
        self,
        replica: Replica,
        transactional_id: str,
        header: BatchHeader | None,
        batch: tuple[memoryview | BatchCheck, int, int],
        *,
        is_only: bool = False,
    ) -> AppendOutcome | asyncio.Future[AppendOutcome]:
        """Append a batch of a producer with transactional id at once, or later.

        `header` is None when it cannot be read; `batch` are records, or their check, acks and the request's version.
        The partition of a request's only batch is added without waiting for `flush`.
        """
        adds = batch[2] >= _FIRST_THAT_ADDS
        is_asked = adds or self._is_enabled()
        if header is None or not header.is_transactional or not is_asked:
            return _append(replica, batch, UNVERIFIED)
        producer_id, epoch = header.producer_id, header.producer_epoch
        if replica.log.producers.has_open_transaction(producer_id, epoch):
            return _append(replica, batch, UNVERIFIED)
        begun = self._begin(replica, producer_id, epoch, header.base_sequence, adds=adds)
        # A late batch shares the verification of a newer epoch, but not its response.
        key = (begun.verification, epoch)
        if (
            not adds
            and not self._channel.is_pending(key)
            and self._transactions.takes_part(
                transactional_id, producer_id, epoch, replica.topic_partition
            )
        ):
            return _append(replica, batch, begun.verification)
        request = VerificationRequest(
            transactional_id, producer_id, epoch, replica.topic_partition, adds
        )
        reply = self._channel.add_at_once(key, request) if adds and is_only else None
        if reply is not None and reply.done() and _is_added(reply.value):
            return _append(replica, batch, begun.verification)
        future: asyncio.Future[AppendOutcome] = asyncio.get_running_loop().create_future()
        token = self._channel.new_token()
        self._batches[token] = _Waiting(replica, begun, batch, future)
        if reply is None or reply.done():
            self._channel.verify(token, key, request)
        else:
            self._channel.wait_for(token, key, request, reply)
        return future.result() if future.done() else future

    def flush(self) -> None:
        """Ask about the batches of a request together; it has no more of them."""
        self._channel.flush()

    def _ended(self, tokens: tuple[Token, ...], code: ErrorCode) -> None:
        """Append, or refuse, the batches that have waited for a response; let offsets continue."""
        offsets = self._offsets.pop(tokens[0], None)
        if offsets is not None:
            if not offsets.done():
                offsets.set_result(code)
            return
        waiting = [self._batches.pop(token) for token in tokens]
        code = _judge(waiting[0], code)
        for one in waiting:
            outcome = self._decide(one, code)
            if not one.future.done():
                one.future.set_result(outcome)

    def _decide(self, waiting: _Waiting, code: ErrorCode) -> AppendOutcome:
        """Append or refuse a batch. It does not raise: those that wait behind it need an outcome, too."""
        replica, begun, batch, _future = waiting
        try:
            if code is not ErrorCode.NONE:
                error, message = refusal(code, batch[2])
                outcome = AppendOutcome(error, message=message)
            elif self._replica_manager.find(replica.topic_partition) is not replica:
                # Deleted, or gone to another broker meanwhile: its files are closed.
                outcome = AppendOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                return _append(replica, batch, begun.verification)
        except Exception:
            # A bug: its producer learns that it is not known whether the batch is stored.
            log.exception("verified batch not appended partition=%s", replica.topic_partition)
            outcome = AppendOutcome(ErrorCode.UNKNOWN_SERVER_ERROR)
        count_refused_produce(replica.traffic, outcome.error, len(batch[0]))
        return outcome

    # -- offsets

    async def verify(
        self,
        replica: Replica,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        adds: bool,
    ) -> ErrorCode:
        """Return NONE when something of the transaction may be appended in this very iteration of the loop.

        With `adds` the partition takes part by it, else only if it did.
        """
        producers = replica.log.producers
        is_asked = adds or self._is_enabled()
        if not is_asked or producers.has_open_transaction(producer_id, producer_epoch):
            return ErrorCode.NONE
        begun = self._begin(replica, producer_id, producer_epoch, -1, adds=adds)
        request = VerificationRequest(
            transactional_id, producer_id, producer_epoch, replica.topic_partition, adds
        )
        token = self._channel.new_token()
        reply = self._offsets[token] = asyncio.get_running_loop().create_future()
        self._channel.verify(token, token, request)
        self._channel.flush()
        code = await reply
        return code_for_offsets(begun, code, replica.log.producers)

    # -- both

    def _begin(
        self, replica: Replica, producer_id: int, epoch: int, sequence: int, *, adds: bool
    ) -> BegunVerification:
        producers = replica.log.producers
        verification = producers.begin_verification(
            producer_id, epoch, sequence, self._context.clock.now_ms(), raises_epoch=adds
        )
        leader_epoch = replica.partition.leader_epoch
        return BegunVerification(producers, leader_epoch, verification, producer_id, epoch)

    def _is_enabled(self) -> bool:
        values = self._context.effective_configs.broker_values()
        return values["transaction.partition.verification.enable"] is True


def _is_added(reply: AddPartitionsReply | ErrorCode) -> bool:
    return isinstance(reply, AddPartitionsReply) and reply.error_code is ErrorCode.NONE


def _judge(first: _Waiting, code: ErrorCode) -> ErrorCode:
    """Return whether batches may be appended now. It does not raise, as `_decide`."""
    replica = first.replica
    try:
        leader_epoch = replica.partition.leader_epoch
        return code_for_batches(first.begun, code, replica.log.producers, leader_epoch)
    except Exception:
        # A bug: the batches are refused with a retriable code.
        log.exception("verified batch not appended partition=%s", replica.topic_partition)
        return ErrorCode.NETWORK_EXCEPTION


def _append(
    replica: Replica, batch: tuple[memoryview | BatchCheck, int, int], verification: Verification
) -> AppendOutcome:
    outcome = replica.append(*batch, verification)
    if outcome.error is not ErrorCode.NONE:
        count_refused_produce(replica.traffic, outcome.error, len(batch[0]))
    return outcome
