"""Partition leaders ask coordinators before the first batch of a transaction is appended (KIP-890).

    Produce --> transaction open here? --yes--------------------------------------------> appended
                       '--no--> waits --> AddPartitionsToTxn (verify_only) --> takes part? --'
                                              to its coordinator                 '--no--> refused

So a batch that comes late, after its transaction has ended, cannot open one that would never end. For a producer of
version 2 the leader does not verify, but adds: its first batch comes without an announced partition. While
the last transaction is still being completed it asks again for a moment, since that is soon over.

Batches of one producer and partition are appended in the order in which they came, whichever of them waits. All
verifications at one coordinator go into one request; one is in flight to each broker.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final, NamedTuple

from kavka.broker.add_partitions_queue import AddPartitionsQueue, TransactionalProducer
from kavka.broker.context import BrokerContext
from kavka.broker.coordination.transactions import TransactionCoordinators
from kavka.broker.partitions.replica import UNVERIFIED, AppendOutcome, Replica
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.partitions.traffic import count_refused_produce
from kavka.core.producer_state import Verification
from kavka.core.transaction.events import Verify, VerifyReply
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.net.peer import Peer
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponse,
)
from kavka.wire.records.batch_check import BatchCheck
from kavka.wire.records.header import BatchHeader

log = logging.getLogger(__name__)

_CONNECT_MS: Final = 10_000
_FIRST_BATCHED: Final = 4
_MAX_REQUESTS: Final = 1000
_FIRST_WITH_TRANSACTION_ABORTABLE: Final = 11
_FIRST_THAT_ADDS: Final = 12
_UNANSWERED: Final = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.OPERATION_NOT_ATTEMPTED,  # the coordinator does not know yet what was asked with it
)
"""Temporary errors; not all producers try again after these, but after NOT_ENOUGH_REPLICAS they do."""
_FINAL: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
"""Permanent errors: no batch of this producer and epoch will ever be appended."""
_LONG_AGO_MS: Final = -sys.maxsize


class _VerificationRequest(NamedTuple):
    """A request whether a partition belongs to a producer's transaction, or to add it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    topic_partition: TopicPartition
    adds: bool


class _Waiting(NamedTuple):
    """A batch that is appended, or refused, when the coordinator has answered."""

    records: memoryview | BatchCheck
    acks: int
    version: int
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
        # By verification and epoch: a late batch shares the verification of a newer epoch, but not its answer.
        self._waiting: dict[tuple[Verification, int], list[_Waiting]] = {}
        self._coordinators: dict[BrokerId, _Coordinator] = {}
        self._add_partitions_queue = AddPartitionsQueue(transactions.submit, self._spawn)
        self._tasks: set[asyncio.Task[None]] = set()
        self._metadata_changes: asyncio.Future[None] | None = None

    async def stop(self) -> None:
        """Stop; pending appends are refused."""
        for coordinator in self._coordinators.values():
            coordinator.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- batches

    def append(
        self,
        replica: Replica,
        transactional_id: str,
        header: BatchHeader | None,
        waiting: tuple[memoryview | BatchCheck, int, int],
    ) -> AppendOutcome | asyncio.Future[AppendOutcome]:
        """Append a batch of a producer with transactional id at once, or later.

        `header` is None when it cannot be read; `waiting` are records, or their check, acks and the request's version.
        """
        adds = waiting[2] >= _FIRST_THAT_ADDS
        is_asked = adds or self._is_enabled()
        if header is None or not header.is_transactional or not is_asked:
            return _append(replica, waiting, UNVERIFIED)
        producers = replica.log.producers
        producer_id, epoch = header.producer_id, header.producer_epoch
        if producers.has_open_transaction(producer_id, epoch):
            return _append(replica, waiting, UNVERIFIED)
        verification = producers.begin_verification(
            producer_id,
            epoch,
            header.base_sequence,
            self._context.clock.now_ms(),
            raises_epoch=adds,
        )
        future: asyncio.Future[AppendOutcome] = asyncio.get_running_loop().create_future()
        queue = self._waiting.get((verification, epoch))
        if queue is None:
            queue = self._waiting[verification, epoch] = []
            request = _VerificationRequest(
                transactional_id, producer_id, epoch, replica.topic_partition, adds
            )
            self._spawn(self._verify_batches(replica, verification, request))
        queue.append(_Waiting(*waiting, future))
        return future

    async def _verify_batches(
        self, replica: Replica, verification: Verification, request: _VerificationRequest
    ) -> None:
        """Ask, then append, or refuse, all that has come meanwhile."""
        producers, leader_epoch = replica.log.producers, replica.partition.leader_epoch
        code = ErrorCode.NETWORK_EXCEPTION
        try:
            code = await self._request_with_retries(request)
            _void_if_final(verification, request, code)
            if code is ErrorCode.NONE:
                is_same_log = replica.log.producers is producers
                has_led_on = replica.partition.leader_epoch == leader_epoch
                is_valid = producers.is_valid(request.producer_id, verification)
                if not is_same_log or not (has_led_on or is_valid):
                    # The log moved, or was cut under another leader: it does not know the verification.
                    code = ErrorCode.NETWORK_EXCEPTION
        finally:
            for waiting in self._waiting.pop((verification, request.producer_epoch)):
                outcome = self._decide(replica, verification, waiting, code)
                if not waiting.future.done():
                    waiting.future.set_result(outcome)

    def _decide(
        self, replica: Replica, verification: Verification, waiting: _Waiting, code: ErrorCode
    ) -> AppendOutcome:
        """Append or refuse a batch. It does not raise: those that wait behind it need an outcome, too."""
        records, acks, version, _future = waiting
        try:
            if code is not ErrorCode.NONE:
                outcome = _refusal(code, version)
            elif self._replica_manager.find(replica.topic_partition) is not replica:
                # Deleted, or gone to another broker meanwhile: its files are closed.
                outcome = AppendOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                return _append(replica, (records, acks, version), verification)
        except Exception:
            log.exception("verified batch not appended partition=%s", replica.topic_partition)
            outcome = AppendOutcome(ErrorCode.UNKNOWN_SERVER_ERROR)
        count_refused_produce(replica.traffic, outcome.error, len(records))
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
        """Return NONE when something of the transaction may be appended in this very turn of the loop.

        With `adds` the partition takes part by it, else only if it did.
        """
        producers = replica.log.producers
        is_asked = adds or self._is_enabled()
        if not is_asked or producers.has_open_transaction(producer_id, producer_epoch):
            return ErrorCode.NONE
        now_ms = self._context.clock.now_ms()
        verification = producers.begin_verification(
            producer_id, producer_epoch, -1, now_ms, raises_epoch=adds
        )
        request = _VerificationRequest(
            transactional_id, producer_id, producer_epoch, replica.topic_partition, adds
        )
        code = await self._request_with_retries(request)
        _void_if_final(verification, request, code)
        if code is not ErrorCode.NONE:
            return code
        if replica.log.producers is not producers:
            # The log moved to another directory: the one that is appended to knows of no verification.
            return ErrorCode.NETWORK_EXCEPTION
        if producers.has_open_transaction(producer_id, producer_epoch):
            return ErrorCode.NONE
        if producers.is_valid(producer_id, verification):
            return ErrorCode.NONE
        # A marker came in between, or the log was cut under another leader. The marker of a producer that took over has
        # a newer epoch. Otherwise the coordinator knows best what has become of the transaction: the next try asks it.
        fenced = producers.check_coordinator(producer_id, producer_epoch)
        return ErrorCode.CONCURRENT_TRANSACTIONS if fenced is None else fenced

    # -- coordinators

    def _is_enabled(self) -> bool:
        values = self._context.configs.broker_values()
        return values["transaction.partition.verification.enable"] is True

    async def _request_with_retries(self, request: _VerificationRequest) -> ErrorCode:
        """Ask again, where a partition is added, as long as the last transaction is still being completed."""
        integer = self._context.config.integer
        backoff_ms = integer("add.partitions.to.txn.retry.backoff.ms")
        left_ms = integer("add.partitions.to.txn.retry.backoff.max.ms") if request.adds else 0
        while True:
            code = await self._request(request)
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS or left_ms <= 0:
                return code
            await asyncio.sleep(backoff_ms / 1000)
            left_ms -= backoff_ms

    async def _request(self, request: _VerificationRequest) -> ErrorCode:
        leader = self._transactions.known_leader_of(request.transactional_id)
        if isinstance(leader, ErrorCode):
            return leader
        if leader == self._context.broker_id:
            return await self._request_locally(request)
        coordinator = self._coordinators.get(leader)
        if coordinator is None:
            coordinator = _Coordinator(self._context, leader, self._spawn)
            self._coordinators[leader] = coordinator
        self._watch_metadata()
        return await coordinator.request(request)

    def _watch_metadata(self) -> None:
        if self._metadata_changes is None:
            self._metadata_changes = self._context.metadata.next_change()
            self._metadata_changes.add_done_callback(self._metadata_changed)

    def _metadata_changed(self, _news: object) -> None:
        """Wait no longer for brokers that coordinate no more; one that hangs would never say so."""
        self._metadata_changes = None
        for broker_id, coordinator in self._coordinators.items():
            coordinator.fail_requests(partial(self._has_moved, broker_id))
        if any(coordinator.has_requests for coordinator in self._coordinators.values()):
            self._watch_metadata()

    async def _request_locally(self, request: _VerificationRequest) -> ErrorCode:
        transactional_id, producer_id, producer_epoch, topic_partition, adds = request
        if adds:
            producer = TransactionalProducer(transactional_id, producer_id, producer_epoch)
            return await asyncio.shield(self._add_partitions_queue.add(producer, topic_partition))
        reply: VerifyReply | ErrorCode = await self._transactions.submit(
            transactional_id,
            lambda token: Verify(
                token, transactional_id, producer_id, producer_epoch, (topic_partition,)
            ),
        )
        return reply if isinstance(reply, ErrorCode) else reply.partitions[0][1]

    def _has_moved(self, broker_id: BrokerId, request: _VerificationRequest) -> bool:
        leader = self._transactions.known_leader_of(request.transactional_id)
        return leader != broker_id

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


_Asked = list[tuple[_VerificationRequest, asyncio.Future[ErrorCode]]]


class _Coordinator:
    """Requests to another broker."""

    def __init__(
        self,
        context: BrokerContext,
        broker_id: BrokerId,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._context = context
        self._broker_id = broker_id
        self._spawn = spawn
        self._peer: Peer | None = None
        self._requests: _Asked = []
        self._in_flight: _Asked = []
        self._sending: asyncio.Task[None] | None = None

    @property
    def has_requests(self) -> bool:
        """Return whether a request waits for an answer."""
        return self._sending is not None

    def request(self, request: _VerificationRequest) -> asyncio.Future[ErrorCode]:
        """Put a question into the next request."""
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._requests.append((request, future))
        self._begin()
        return future

    def _begin(self) -> None:
        if self._sending is None and self._requests:
            self._sending = self._spawn(self._send_all())

    def fail_requests(self, has_moved: Callable[[_VerificationRequest], bool]) -> None:
        """Ask this broker no longer what it cannot answer any more; one that was asked is not waited for.

        Other partitions of the same request, which did not move, get no response either and may try again.
        """
        is_in_flight = _settle_moved(self._in_flight, has_moved)
        if _settle_moved(self._requests, has_moved):
            self._requests = [asked for asked in self._requests if not asked[1].done()]
        if is_in_flight:
            log.info("not verified coordinator=%d reason=moved", self._broker_id)
            if self._sending is not None:
                self._sending.cancel()
                self._sending = None
            self._abort()
            self._begin()

    def stop(self) -> None:
        """Fail all requests with NETWORK_EXCEPTION."""
        _settle(self._requests, {}, ErrorCode.NETWORK_EXCEPTION)
        self._requests = []
        self._abort()

    def _abort(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.abort()

    async def _send_all(self) -> None:
        """Send one request after the other, as long as there are questions."""
        try:
            while self._requests:
                self._in_flight, self._requests = _one_request(self._requests)
                await self._send(self._in_flight)
        finally:
            if self._sending is asyncio.current_task():
                self._sending = None
                self._in_flight = []

    async def _send(self, taken: _Asked) -> None:
        codes: dict[tuple[str, TopicPartition], ErrorCode] = {}
        otherwise = ErrorCode.NETWORK_EXCEPTION
        try:
            peer = await self._connected()
            if peer.version_of(ApiKey.ADD_PARTITIONS_TO_TXN) < _FIRST_BATCHED:
                otherwise = ErrorCode.NONE  # too old to be asked: as Kafka, go without
            else:
                response: AddPartitionsToTxnResponse = await peer.send(
                    _message(request for request, _ in taken), timeout_ms=self._timeout_ms
                )
                codes = _codes(response)
                if response.error_code:
                    otherwise = ErrorCode.of(response.error_code)
                    what = "not verified coordinator=%d error=%s"
                    log.warning(what, self._broker_id, otherwise.name)
                    if otherwise is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                        # The error is about this broker, not about the client, which gets a failed verification.
                        otherwise = ErrorCode.INVALID_TXN_STATE
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                otherwise = ErrorCode.NONE
            log.info("not verified coordinator=%d reason=%s", self._broker_id, error)
        except (OSError, CorruptFrame) as error:
            log.info("not verified coordinator=%d reason=%s", self._broker_id, error)
        except Exception:
            # A bug must not block later verifications.
            log.exception("not verified coordinator=%d", self._broker_id)
        finally:
            _settle(taken, codes, otherwise)

    @property
    def _timeout_ms(self) -> int:
        return self._context.config.integer("request.timeout.ms")

    async def _connected(self) -> Peer:
        if self._peer is None or self._peer.is_closed:
            live = self._context.metadata.brokers.get(self._broker_id)
            listener = self._context.config.inter_broker_listener
            endpoint = None if live is None else live.endpoint(listener)
            if endpoint is None:
                raise ConnectionError(f"broker {self._broker_id} is not known to be alive")
            self._peer = await Peer.connect(
                self._context.environment.network,
                endpoint.host,
                endpoint.port,
                client_id=f"{self._context.broker_id}-verifier",
                timeout_ms=min(_CONNECT_MS, self._timeout_ms),
            )
        return self._peer


def _one_request(asked: _Asked) -> tuple[_Asked, _Asked]:
    """Part what fits into one request from the rest: a transactional id is in it once, with one producer and wish."""
    producers: dict[str, tuple[int, int, bool]] = {}
    taken: _Asked = []
    left: _Asked = []
    for request, future in asked:
        producer = (request.producer_id, request.producer_epoch, request.adds)
        known = producers.setdefault(request.transactional_id, producer)
        fits = known == producer and len(taken) < _MAX_REQUESTS
        (taken if fits else left).append((request, future))
    return taken, left


def _message(requests: Iterable[_VerificationRequest]) -> AddPartitionsToTxnRequest:
    transactions: dict[str, AddPartitionsToTxnRequestTransaction] = {}
    topics: dict[tuple[str, str], AddPartitionsToTxnRequestTopic] = {}
    for request in dict.fromkeys(requests):
        transactional_id, (name, partition) = request.transactional_id, request.topic_partition
        transaction = transactions.get(transactional_id)
        if transaction is None:
            transaction = transactions[transactional_id] = AddPartitionsToTxnRequestTransaction(
                transactional_id=transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                verify_only=not request.adds,
            )
        topic = topics.get((transactional_id, name))
        if topic is None:
            topic = topics[transactional_id, name] = AddPartitionsToTxnRequestTopic(name=name)
            transaction.topics.append(topic)
        topic.partitions.append(partition)
    return AddPartitionsToTxnRequest(transactions=list(transactions.values()))


def _codes(response: AddPartitionsToTxnResponse) -> dict[tuple[str, TopicPartition], ErrorCode]:
    return {
        (
            transaction.transactional_id,
            TopicPartition(topic.name, row.partition_index),
        ): ErrorCode.of(row.partition_error_code)
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for row in topic.results_by_partition
    }


def _settle(
    asked: _Asked, codes: dict[tuple[str, TopicPartition], ErrorCode], otherwise: ErrorCode
) -> None:
    for request, future in asked:
        if not future.done():
            key = (request.transactional_id, request.topic_partition)
            # One may go without verification, where the coordinator is too old, but not without taking part.
            is_unanswered = request.adds and otherwise is ErrorCode.NONE
            unsaid = ErrorCode.INVALID_TXN_STATE if is_unanswered else otherwise
            future.set_result(codes.get(key, unsaid))


def _settle_moved(asked: _Asked, has_moved: Callable[[_VerificationRequest], bool]) -> bool:
    """Answer NOT_COORDINATOR to waiting requests that belong to another broker now; return whether there are any."""
    moved = [one for one in asked if not one[1].done() and has_moved(one[0])]
    _settle(moved, {}, ErrorCode.NOT_COORDINATOR)
    return bool(moved)


def _void_if_final(
    verification: Verification, request: _VerificationRequest, code: ErrorCode
) -> None:
    """Let the next sweep of expired producers drop what will never be of use, and not that of a day later."""
    if code in _FINAL and verification.producer_epoch == request.producer_epoch:
        verification.started_ms = _LONG_AGO_MS


def _append(
    replica: Replica, batch: tuple[memoryview | BatchCheck, int, int], verification: Verification
) -> AppendOutcome:
    outcome = replica.append(*batch, verification)
    if outcome.error is not ErrorCode.NONE:
        count_refused_produce(replica.traffic, outcome.error, len(batch[0]))
    return outcome


def _refusal(code: ErrorCode, version: int) -> AppendOutcome:
    """Return the error for a producer, in the codes of its version."""
    if code in _UNANSWERED:
        message = (
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {code.name}"
        )
        return AppendOutcome(ErrorCode.NOT_ENOUGH_REPLICAS, message=message)
    if code is ErrorCode.PRODUCER_FENCED:
        return AppendOutcome(ErrorCode.INVALID_PRODUCER_EPOCH)
    is_new = version >= _FIRST_WITH_TRANSACTION_ABORTABLE
    if code is ErrorCode.TRANSACTION_ABORTABLE and not is_new:
        code = ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.INVALID_TXN_STATE:
        return AppendOutcome(code, message="Partition was not added to the transaction")
    return AppendOutcome(code)
