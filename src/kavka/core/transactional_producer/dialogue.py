"""The dialogues of a producer with the coordinators of its transactions (`steps` says how). Pure.

What a transaction sends, in this order on each line; lines may overlap:

    a batch is opened -> AddPartitionsToTxn -> Produce
    send_offsets      -> AddOffsetsToTxn -> TxnOffsetCommit (at the group's coordinator)
    commit or abort   -> everything above is answered -> EndTxn -> (after damage) InitProducerId

In version 2 (KIP-890) brokers add to the transaction by themselves, and EndTxn gives the epoch of the next one:

    a batch is opened -> Produce
    send_offsets      -> TxnOffsetCommit
    commit or abort   -> everything above is answered -> EndTxn

Each request is repeated until it is answered permanently: `errors` has the class of each code. What adds to a
transaction gives up once that has failed, as soon as it is known that nothing was added.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from kavka.core.group_member.steps import GroupMetadata
from kavka.core.transactional_producer.errors import (
    AbortableError,
    ErrorClass,
    FatalError,
    Stage,
    classify,
    is_unknown_to_broker,
    refusal,
)
from kavka.core.transactional_producer.state import (
    PreparedTxnState,
    State,
    TransactionState,
    aborted_error,
)
from kavka.core.transactional_producer.steps import (
    AddOffsets,
    AddPartitions,
    BackOff,
    Codes,
    CommitOffsets,
    DropUnsent,
    EndTransaction,
    InitProducerId,
    Offsets,
    Request,
    RequestResult,
    Send,
    Step,
    UseProducerId,
    WaitUntilAdded,
    WaitUntilIdle,
    WaitUntilWritten,
)
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.wire.codec import CorruptFrame

_COORDINATOR_GONE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)
TWO_PHASE_REFUSALS = (
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
"""Errors of InitProducerId from brokers that do not offer two-phase commit."""
_TWO_PHASE_HINT = (
    "two-phase commit is not offered: brokers need transaction.two.phase.commit.enable=true"
)
_ADDING = (Stage.ADD_PARTITIONS, Stage.ADD_OFFSETS, Stage.COMMIT_OFFSETS)

Dialogue = Generator[Step, Any, None]


class TransactionDialogues:
    """The dialogues over one `TransactionState`. All raise AbortableError and FatalError."""

    def __init__(self, state: TransactionState, *, two_phase_commit: bool) -> None:
        """`two_phase_commit`: transactions stay open until they are completed (KIP-939)."""
        self._state = state
        self._two_phase_commit = two_phase_commit
        self._producer = PreparedTxnState(-1, -1)

    def resume(self, producer: PreparedTxnState) -> None:
        """Continue with the producer id and epoch of another process."""
        self._producer = producer

    # Operations

    def init(self, keeps_prepared: bool) -> Dialogue:
        """Obtain a producer id and epoch; what an older producer of the id left open is ended, or kept."""
        result = yield from self._init_producer_id(InitProducerId(keeps_prepared))
        if result.ongoing_producer_id < 0:
            self._state.initialized()
        else:
            kept = PreparedTxnState(result.ongoing_producer_id, result.ongoing_epoch)
            self._state.prepared_kept(kept)

    def prepare(self) -> Dialogue:
        """Write everything, so that nothing is left but the decision."""
        yield from self._write_all()
        self._state.has_prepared(self._producer)

    def commit(self) -> Dialogue:
        """Write everything and commit."""
        yield from self._write_all()
        yield from self._end(commit=True)
        self._state.ended()

    def abort(self) -> Dialogue:
        """Drop what was not sent, and abort; raise the epoch where the broker waits for what was dropped."""
        state = self._state
        is_unknown = state.error is not None and is_unknown_to_broker(state.error.code)
        yield DropUnsent(aborted_error())
        yield WaitUntilAdded()
        yield WaitUntilWritten()
        yield WaitUntilIdle()
        if state.state is State.FAILED:
            state.raise_error()
        if not is_unknown:
            try:
                yield from self._end(commit=False)
            except AbortableError as error:
                if not is_unknown_to_broker(error.code):  # an abort cannot be aborted
                    raise FatalError(error.code, error.detail) from error
                is_unknown = True
        if is_unknown or state.must_bump:
            yield from self._init_producer_id(InitProducerId(raises_epoch=True))
        state.ended()

    def _write_all(self) -> Dialogue:
        yield WaitUntilWritten()
        self._state.ending()
        yield WaitUntilAdded()
        self._state.raise_error()

    def _end(self, *, commit: bool) -> Dialogue:
        if not self._state.is_known:
            return
        version = self._state.version
        result = yield from self._send(EndTransaction(commit, version))
        if version >= 2:
            yield from self._use(result, is_of_end=True)
            self._state.must_bump = False

    def _init_producer_id(self, request: InitProducerId) -> Generator[Step, Any, RequestResult]:
        try:
            result = yield from self._send(request)
        except FatalError as error:
            is_refused = error.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if self._two_phase_commit and is_refused:
                raise FatalError(error.code, _TWO_PHASE_HINT) from error
            raise
        yield from self._use(result, is_of_end=False)
        return result

    def _use(self, result: RequestResult, *, is_of_end: bool) -> Dialogue:
        self._producer = PreparedTxnState(result.producer_id, result.epoch)
        yield UseProducerId(result.producer_id, result.epoch, is_of_end)

    # What joins the transaction

    def add_partitions(self, partitions: list[TopicPartition]) -> Dialogue:
        """Add partitions to the transaction; they are those of `TransactionState.next_to_add`."""
        try:
            yield from self._send(AddPartitions(partitions))
        except BaseException:
            self._state.partitions_refused()
            raise
        self._state.partitions_added()

    def send_offsets(self, offsets: Offsets, group: GroupMetadata) -> Dialogue:
        """Make offsets of a group part of the transaction."""
        if not self._state.includes_group(group.group_id):
            yield from self._send(AddOffsets(group.group_id))
        self._state.group_added(group.group_id)
        yield from self._send(CommitOffsets(group, offsets, self._state.version))

    # Requests

    def _send(self, request: Request) -> Generator[Step, Any, RequestResult]:
        """Send until there is a response. Raise AbortableError or FatalError for one that does not help."""
        attempt = 0
        is_unanswered = False  # a request that was sent may have been handled
        while True:
            code: ErrorCode | None = None
            try:
                result: RequestResult = yield Send(request)
                code, detail = _most_severe(request.stage, result.codes)
                if code is ErrorCode.NONE:
                    return result
            except KafkaError as error:  # no coordinator is known, or it is too old
                code, detail = error.code, error.detail
            except (OSError, CorruptFrame) as error:
                detail = str(error)
                is_unanswered = True
            self._raise_unless_retriable(request.stage, code, detail, is_unanswered)
            yield BackOff(
                request,
                attempt,
                code or detail or "",
                forgets_coordinator=code is None or code in _COORDINATOR_GONE,
                is_short=code is ErrorCode.CONCURRENT_TRANSACTIONS,
            )
            attempt += 1

    def _raise_unless_retriable(
        self, stage: Stage, code: ErrorCode | None, detail: str | None, is_unanswered: bool
    ) -> None:
        if code is not None and classify(stage, code) is not ErrorClass.RETRIABLE:
            raise refusal(stage, code, detail)
        # Whether partitions were added must be known before the end: only a response to each request says so.
        may_give_up = stage is Stage.COMMIT_OFFSETS or not is_unanswered
        if stage in _ADDING and may_give_up and self._state.has_failed:
            raise aborted_error()


def _most_severe(stage: Stage, codes: Codes) -> tuple[ErrorCode, str | None]:
    """Return the code that decides, and which partition has it. OPERATION_NOT_ATTEMPTED blames another one."""
    refused = {
        topic_partition: code
        for topic_partition, code in codes.items()
        if code is not ErrorCode.NONE
    }
    if not refused:
        return ErrorCode.NONE, None
    topic_partition = max(
        refused, key=lambda topic_partition: _severity(stage, refused[topic_partition])
    )
    worst = refused[topic_partition]
    return worst, None if topic_partition is None else f"{topic_partition}: {worst.message}"


def _severity(stage: Stage, code: ErrorCode) -> int:
    return -1 if code is ErrorCode.OPERATION_NOT_ATTEMPTED else classify(stage, code).value
