"""Takes a producer's transactions to their coordinator: the shell around `transaction`.

What a transaction asks for, in this order on each line; lines may overlap:

    a batch is opened -> AddPartitionsToTxn -> Produce
    send_offsets      -> AddOffsetsToTxn -> TxnOffsetCommit (at the group's coordinator)
    commit or abort   -> everything above is answered -> EndTxn -> (after damage) InitProducerId

In version 2 (KIP-890) brokers add to the transaction by themselves, and EndTxn gives the epoch of the next one:

    a batch is opened -> Produce
    send_offsets      -> TxnOffsetCommit
    commit or abort   -> everything above is answered -> EndTxn

Each request is repeated until it is answered for good. A call waits for `max.block.ms`; what it has begun goes on in a
task, and the same call made again waits for the same task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from kavka.client.cluster import Cluster, CoordinatorKind
from kavka.client.coordinator import Coordinator
from kavka.client.producer.batch import NO_SEQUENCE, ProducerBatch
from kavka.client.producer.coordinator_requests import CoordinatorRequest, CoordinatorRequests
from kavka.client.producer.prepared_txn_state import PreparedTxnState
from kavka.client.producer.sequences import SequenceNumbers
from kavka.client.producer.transaction_errors import (
    AbortableError,
    FatalError,
    Stage,
    as_abortable,
    is_unknown_to_broker,
)
from kavka.client.producer.transaction_requests import (
    MEMBERS_VERSION,
    NEWEST_ADD_PARTITIONS,
    Identity,
    Offsets,
    code_of_answer,
    codes_of_offsets,
    codes_of_partitions,
    version_of,
)
from kavka.client.producer.transaction_state import State, TransactionState, aborted_error
from kavka.core.group_member.steps import GroupMetadata
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import ProducerEpoch, ProducerId, TopicPartition
from kavka.net.peer import Peer
from kavka.wire.apis import ApiKey
from kavka.wire.messages.end_txn import EndTxnResponse
from kavka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

log = logging.getLogger(__name__)

_BUMP_VERSION = 3
"""First version of InitProducerId that can bump a given epoch (KIP-360)."""
_TWO_PHASE_VERSION = 6
"""InitProducerId before it knows nothing of two-phase commit (KIP-939)."""
_TWO_PHASE_REFUSALS = (
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
"""Errors of InitProducerId from brokers that do not offer two-phase commit."""
_TWO_PHASE_REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_TWO_PHASE_HINT = (
    "two-phase commit is not offered: brokers need transaction.two.phase.commit.enable=true"
)


class TransactionSettings(NamedTuple):
    """Settings of transactions."""

    transactional_id: str
    timeout_ms: int
    max_block_ms: int
    retry_backoff_ms: int
    two_phase_commit: bool
    """True if transactions stay open until they are completed, for a decision made elsewhere (KIP-939)."""


class ProducerCalls(NamedTuple):
    """Functions of the producer that its transactions call."""

    close_batches: Callable[[], None]
    """Let no open batch take more records."""
    wait_until_written: Callable[[], Awaitable[None]]
    """Wait until every record is written or has failed."""
    drop_unsent: Callable[[Exception], Awaitable[None]]
    """Fail the records that are not on the wire."""
    wait_until_idle: Callable[[], Awaitable[None]]
    """Wait until no request is on the wire."""


class _Operation(NamedTuple):
    name: str
    task: asyncio.Task[None]


class TransactionManager:
    """The transactions of one producer. All methods belong to the loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        transaction: TransactionState,
        sequences: SequenceNumbers,
        settings: TransactionSettings,
        calls: ProducerCalls,
        wake: Callable[[], None],
    ) -> None:
        """`wake` lets the sender look at its batches again."""
        self._cluster = cluster
        self._transaction = transaction
        self._sequences = sequences
        self._settings = settings
        self._calls = calls
        self._wake = wake
        self._coordinator = Coordinator(
            cluster, CoordinatorKind.TRANSACTION, settings.transactional_id
        )
        self._requests = CoordinatorRequests(cluster, transaction, settings.retry_backoff_ms)
        self._groups: dict[str, Coordinator] = {}
        self._operation: _Operation | None = None
        self._adding: set[asyncio.Task[None]] = set()  # what adds to the transaction

    # Called by the producer's user

    async def init(self, keep_prepared: bool) -> PreparedTxnState | None:
        """Get a producer id and epoch, which fences an older life of this producer.

        What it left open is ended, or kept, and its name returned.
        """
        await self._operate(
            "init_transactions", self._transaction.begin_init, lambda: self._init(keep_prepared)
        )
        return self._transaction.prepared

    def resume(self, identity: PreparedTxnState) -> None:
        """Take the producer id and epoch that another process got; nothing is sent."""
        self._transaction.begin_init()
        self._sequences.restart_all(ProducerId(identity.producer_id), ProducerEpoch(identity.epoch))
        self._transaction.initialized()

    @property
    def identity(self) -> PreparedTxnState:
        """The producer id and epoch."""
        return PreparedTxnState(self._sequences.producer_id, self._sequences.epoch)

    def begin(self) -> None:
        """Begin a transaction; nothing is sent."""
        if self._operation is not None:
            raise RuntimeError(f"{self._operation.name} is not over: call it again to wait for it")
        self._transaction.begin(self._cluster.transaction_version)

    async def prepare(self) -> PreparedTxnState | None:
        """Write everything, so that nothing is left but the decision; None when there is nothing to decide about."""
        await self._operate("prepare_transaction", self._begin_prepare, self._prepare)
        return self._transaction.prepared

    async def complete(self, state: PreparedTxnState | None) -> None:
        """Commit what is prepared if this is its name, else abort it."""
        if self._operation is None:
            self._transaction.require_prepared()
        await (self.commit() if state == self._transaction.prepared else self.abort())

    async def commit(self) -> None:
        """Write everything and commit."""
        await self._operate("commit_transaction", self._begin_commit, self._commit)

    async def abort(self) -> None:
        """Drop what was not sent, and abort."""
        await self._operate("abort_transaction", self._begin_abort, self._abort)

    async def send_offsets(self, offsets: Offsets, group: GroupMetadata) -> None:
        """Make offsets of a group part of the transaction, and wait for the answers."""
        self._transaction.require_open()
        if not offsets:
            return
        task = self._track(self._send_offsets(offsets, group))
        done, _ = await asyncio.wait({task}, timeout=self._settings.max_block_ms / 1000)
        if not done:
            late = TimeoutError(f"no answer to the offsets in {self._settings.max_block_ms} ms")
            self.mark_abortable(late)
            raise late
        _require_finished(task)
        self._transaction.raise_error()

    async def close(self) -> None:
        """End what is open as an abort, if the coordinator can be reached within `max.block.ms`; stop all tasks."""
        try:
            async with asyncio.timeout(self._settings.max_block_ms / 1000):
                if self._operation is not None:
                    await asyncio.wait({self._operation.task})
                if self._transaction.state in (State.OPEN, State.MUST_ABORT):
                    log.info("open transaction aborted id=%s", self._settings.transactional_id)
                    self._begin_abort()
                    await self._abort()
                elif self._transaction.state is State.PREPARED:
                    log.info("transaction left prepared id=%s", self._settings.transactional_id)
        except (TimeoutError, KafkaError) as error:
            log.warning(
                "transaction left to its time-out id=%s reason=%s",
                self._settings.transactional_id,
                error,
            )

    async def stop(self) -> None:
        """End all tasks."""
        tasks: list[asyncio.Task[None]] = [*self._adding]
        if self._operation is not None:
            tasks.append(self._operation.task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Called by the rest of the producer

    def mark_abortable(self, error: Exception) -> None:
        """Learn that a record of the transaction, or its offsets, cannot be sent."""
        self._fail(as_abortable(error), must_bump=False)

    def on_batch_failed(self, batch: ProducerBatch, error: Exception) -> None:
        """Learn that a batch is given up; with sequences, the broker waits for them in this epoch."""
        self._fail(as_abortable(error), must_bump=batch.base_sequence != NO_SEQUENCE)

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Have partitions with records added to the transaction; called in each turn of the sender."""
        self._transaction.add_wanted(partitions)
        wanted = self._transaction.next_to_add()
        if wanted:
            self._track(self._add_partitions(wanted))

    def _fail(self, error: KafkaError, must_bump: bool) -> None:
        before = self._transaction.state
        self._transaction.must_abort(error, must_bump)
        if self._transaction.state is not before:
            # A refusal of two-phase commit is an answer to a question, and the caller has it, too.
            asked = self._settings.two_phase_commit and error.code in _TWO_PHASE_REFUSALS
            log.log(
                logging.INFO if asked else logging.WARNING,
                "two-phase commit refused id=%s reason=%s"
                if asked
                else "transaction failed id=%s reason=%s",
                self._settings.transactional_id,
                error,
            )
            self._wake()  # so that the sender drops what waits

    # Operations

    async def _operate(
        self, name: str, begin: Callable[[], None], work: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        if self._operation is None:
            begin()
            task = asyncio.get_running_loop().create_task(self._run_guarded(work()))
            self._operation = _Operation(name, task)
        elif self._operation.name != name:
            raise RuntimeError(f"{self._operation.name} is not over: call it again to wait for it")
        task = self._operation.task
        done, _ = await asyncio.wait({task}, timeout=self._settings.max_block_ms / 1000)
        if not done:
            raise TimeoutError(
                f"{name} is not over after {self._settings.max_block_ms} ms: call it again, or close the producer"
            )
        self._operation = None
        _require_finished(task)
        task.result()

    async def _run_guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except KafkaError as error:
            self._fail(error, must_bump=False)
            raise

    async def _init(self, keep_prepared: bool) -> None:
        answer = await self._init_producer_id(
            InitProducerIdRequest(
                transactional_id=self._settings.transactional_id,
                transaction_timeout_ms=self._settings.timeout_ms,
                enable_2pc=self._settings.two_phase_commit,
                keep_prepared_txn=keep_prepared,
            )
        )
        if answer.ongoing_txn_producer_id < 0:
            self._transaction.initialized()
        else:
            ongoing = answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch
            self._transaction.prepared_kept(PreparedTxnState(*ongoing))

    async def _init_producer_id(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        def build(peer: Peer) -> tuple[Any, int | None]:
            version = peer.version_of(ApiKey.INIT_PRODUCER_ID)
            if request.producer_id >= 0 and version < _BUMP_VERSION:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"{peer.name} is too old to raise the epoch (InitProducerId {version} < {_BUMP_VERSION})",
                )
            if (request.enable_2pc or request.keep_prepared_txn) and version < _TWO_PHASE_VERSION:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"{peer.name} is too old for two-phase commit (InitProducerId {version} < {_TWO_PHASE_VERSION})",
                )
            return request, version

        try:
            answer: InitProducerIdResponse = await self._requests.send(
                CoordinatorRequest(Stage.INIT, self._coordinator, build, code_of_answer)
            )
        except FatalError as error:
            if request.enable_2pc and error.code is _TWO_PHASE_REFUSED:
                raise FatalError(error.code, _TWO_PHASE_HINT) from error
            raise
        producer_id, epoch = ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch)
        self._sequences.restart_all(producer_id, epoch)
        log.info(
            "transactional producer has its id id=%s producer_id=%d epoch=%d",
            self._settings.transactional_id,
            producer_id,
            epoch,
        )
        return answer

    def _begin_prepare(self) -> None:
        self._transaction.begin_prepare()
        self._calls.close_batches()

    async def _prepare(self) -> None:
        await self._all_written()
        identity = self._identity
        self._transaction.has_prepared(PreparedTxnState(identity.producer_id, identity.epoch))

    async def _all_written(self) -> None:
        await self._calls.wait_until_written()
        self._transaction.ending()
        await self._wait_until_added()
        self._transaction.raise_error()

    def _begin_commit(self) -> None:
        self._transaction.begin_commit()
        self._calls.close_batches()

    async def _commit(self) -> None:
        await self._all_written()
        await self._end(commit=True)
        self._transaction.ended()

    def _begin_abort(self) -> None:
        self._transaction.begin_abort()
        self._calls.close_batches()

    async def _abort(self) -> None:
        forgotten = self._transaction.error is not None and is_unknown_to_broker(
            self._transaction.error.code
        )
        await self._calls.drop_unsent(aborted_error())
        await self._wait_until_added()
        await self._calls.wait_until_written()
        await self._calls.wait_until_idle()
        if self._transaction.state is State.FAILED:
            self._transaction.raise_error()
        if not forgotten:
            try:
                await self._end(commit=False)
            except AbortableError as error:
                if not is_unknown_to_broker(error.code):  # an abort cannot be aborted
                    raise FatalError(error.code, error.detail) from error
                forgotten = True
        if forgotten or self._transaction.must_bump:
            await self._bump()
        self._transaction.ended()

    async def _end(self, commit: bool) -> None:
        if not self._transaction.is_known:
            return
        request, transaction_version = self._identity.end(commit), self._transaction.version

        def build(peer: Peer) -> tuple[Any, int]:
            return request, version_of(peer, ApiKey.END_TXN, transaction_version)

        answer: EndTxnResponse = await self._requests.send(
            CoordinatorRequest(Stage.END, self._coordinator, build, code_of_answer)
        )
        if transaction_version >= 2:
            epoch = ProducerEpoch(answer.producer_epoch)
            self._sequences.restart_all(ProducerId(answer.producer_id), epoch)
            self._transaction.must_bump = False

    async def _bump(self) -> None:
        identity = self._identity
        await self._init_producer_id(
            InitProducerIdRequest(
                transactional_id=identity.transactional_id,
                transaction_timeout_ms=self._settings.timeout_ms,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                enable_2pc=self._settings.two_phase_commit,
            )
        )

    # What joins the transaction

    def _track(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run what adds to the transaction; its failure fails the transaction, and is raised from there."""

        async def guarded() -> None:
            with suppress(KafkaError):  # `_guarded` has kept it
                await self._run_guarded(work)
            self._wake()

        task = asyncio.get_running_loop().create_task(guarded())
        self._adding.add(task)
        task.add_done_callback(self._adding.discard)
        return task

    async def _wait_until_added(self) -> None:
        while self._adding:
            await asyncio.wait(set(self._adding))

    async def _add_partitions(self, partitions: list[TopicPartition]) -> None:
        request = self._identity.add_partitions(partitions)

        def build(peer: Peer) -> tuple[Any, int]:
            return request, peer.version_of(ApiKey.ADD_PARTITIONS_TO_TXN, NEWEST_ADD_PARTITIONS)

        try:
            await self._requests.send(
                CoordinatorRequest(
                    Stage.ADD_PARTITIONS, self._coordinator, build, codes_of_partitions
                )
            )
        except BaseException:
            self._transaction.partitions_refused()
            raise
        self._transaction.partitions_added()

    async def _send_offsets(self, offsets: Offsets, group: GroupMetadata) -> None:
        if not self._transaction.includes_group(group.group_id):
            request = self._identity.add_offsets(group.group_id)
            await self._requests.send(
                CoordinatorRequest(
                    Stage.ADD_OFFSETS,
                    self._coordinator,
                    lambda peer: (request, None),
                    code_of_answer,
                )
            )
        self._transaction.group_added(group.group_id)
        coordinator = self._groups.get(group.group_id)
        if coordinator is None:
            coordinator = Coordinator(self._cluster, CoordinatorKind.GROUP, group.group_id)
            self._groups[group.group_id] = coordinator
        commit = self._identity.commit_offsets(group, offsets)
        transaction_version = self._transaction.version

        def build(peer: Peer) -> tuple[Any, int]:
            version = version_of(peer, ApiKey.TXN_OFFSET_COMMIT, transaction_version)
            if group.generation_id >= 0 and version < MEMBERS_VERSION:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"{peer.name} is too old to check the member (TxnOffsetCommit {version} < {MEMBERS_VERSION})",
                )
            return commit, version

        await self._requests.send(
            CoordinatorRequest(Stage.COMMIT_OFFSETS, coordinator, build, codes_of_offsets)
        )

    @property
    def _identity(self) -> Identity:
        return Identity(
            self._settings.transactional_id, self._sequences.producer_id, self._sequences.epoch
        )


def _require_finished(task: asyncio.Task[None]) -> None:
    if task.cancelled():  # by `stop`
        raise RuntimeError("the producer is closed")
