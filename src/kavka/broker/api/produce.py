"""Produce: batches from a client to the logs that this broker leads.

acks=0    no response; an error closes the connection, which is all that the client can learn
acks=1    responded to when the bytes are in the page cache of this broker
acks=all  responded to when the high watermark has passed them, or after the request's timeout, which begins when they
          are in the page cache (a slow disk is waited for)

This handler authorises, and responds; `produce.request_appender` appends. Nearly every request is appended in the
iteration of the loop in which it is read. One that is not appended within its allowance continues in later iterations,
and checks of batches that are larger than that are finished in the pool. Until all of it is appended, its connection
handles no further request: batches of a producer are appended in the order of its requests.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kavka.broker.lazy import Lazy
from kavka.broker.metadata.cache import INTERNAL_TOPICS
from kavka.broker.partitions.replica import ACKS_ALL, AppendOutcome
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.produce.delayed_produce import Append, DelayedProduce, wait_until_written
from kavka.broker.produce.produce_outcomes import (
    TopicOutcomes,
    appended,
    has_errors,
    respond,
    respond_with_errors,
    waiting,
    with_codes,
)
from kavka.broker.produce.request_appender import (
    RequestAppender,
    Steps,
    TopicAppends,
    finished_topics,
    first_allowance,
    wait_until_verified,
)
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import NO_RESPONSE, SecondStage
from kavka.broker.requests.purgatory import Purgatory
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.errors import ErrorCode
from kavka.wire.frame import EncodedResponse
from kavka.wire.messages.produce import ProduceRequest, ProduceResponse
from kavka.wire.records.batch_check import Allowance, BatchCheck

if TYPE_CHECKING:
    from kavka.broker.coordination.verification import Verifier
    from kavka.broker.partitions.current_leaders import CurrentLeaders
    from kavka.broker.produce.batch_checks import BatchChecks

_NONE = ErrorCode.NONE
_ACKS = (ACKS_ALL, 0, 1)
_WRITE, _TOPIC = AclOperation.WRITE, AclResourceType.TOPIC

_Result = ProduceResponse | EncodedResponse | DelayedProduce | SecondStage
_T = TypeVar("_T")


class Handler:
    """Authorises Produce requests, has them appended, and responds."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        produce_purgatory: Purgatory,
        batch_checks: Lazy[BatchChecks],
        verifier: Lazy[Verifier],
        current_leaders: Lazy[CurrentLeaders],
    ) -> None:
        """Take the parts; `current_leaders` are named in responses with errors (KIP-951)."""
        self._appender = RequestAppender(replica_manager, verifier.get, batch_checks)
        self._replica_manager = replica_manager
        self._purgatory = produce_purgatory
        self._current_leaders = current_leaders

    def handle(self, context: RequestContext, request: ProduceRequest) -> _Result:
        """Append to each partition, in the order of the request."""
        rounds = self._replica_manager.rounds
        if rounds is None or request.acks != ACKS_ALL:
            return self._append(context, request)
        connection = context.connection
        rounds.begin(
            connection.attachment,
            connection.requests_in_flight,
            context.slot.held_bytes,
            context.received_ms,
        )
        try:
            return self._append(context, request)
        finally:
            rounds.end()

    def _append(self, context: RequestContext, request: ProduceRequest) -> _Result:
        allowance = first_allowance()
        if request.transactional_id is not None:
            return self._handle_in_transaction(context, request, allowance)
        refusal_of = partial(_refusal, context, request.acks)
        steps = self._appender.append(request, context.version, refusal_of, allowance)
        try:
            wanted = next(steps)
        except StopIteration as stop:
            return self._respond_to_appended(context, request, stop.value)
        context.connection.block()
        return SecondStage(self._append_later(context, request, steps, wanted, allowance))

    async def _append_later(
        self,
        context: RequestContext,
        request: ProduceRequest,
        steps: Steps[list[TopicOutcomes]],
        wanted: BatchCheck | None,
        allowance: Allowance,
    ) -> _Result:
        """Append the rest of a request in later iterations of the loop, then respond."""
        outcomes = await self._finish_steps(context, steps, wanted, allowance)
        return await self._respond_later(context, request, outcomes)

    async def _finish_steps(
        self,
        context: RequestContext,
        steps: Steps[_T],
        wanted: BatchCheck | None,
        allowance: Allowance,
    ) -> _T:
        """Continue a request with a blocked connection, and unblock it when all is appended.

        It is finished without its connection, too: a client may send with acks=0 and close.
        """
        try:
            return await self._appender.finish(steps, wanted, allowance)
        finally:
            context.connection.unblock()

    # -- in a transaction

    def _handle_in_transaction(
        self, context: RequestContext, request: ProduceRequest, allowance: Allowance
    ) -> _Result:
        may_use_id = partial(_may_use_transactional_id, context, request)
        refusal_of = partial(_refusal, context, request.acks)
        only = self._appender.append_only_in_transaction(
            request, context.version, may_use_id, refusal_of
        )
        if only is not None:
            return self._respond_to_verified(context, request, [only])
        steps = self._appender.append_in_transaction(
            request, context.version, may_use_id, refusal_of, allowance
        )
        try:
            wanted = next(steps)
        except StopIteration as stop:
            return self._respond_to_verified(context, request, stop.value)
        context.connection.block()
        later = self._append_in_transaction_later(context, request, steps, wanted, allowance)
        return SecondStage(later)

    def _respond_to_verified(
        self, context: RequestContext, request: ProduceRequest, appends: list[TopicAppends]
    ) -> _Result:
        """Respond when everything that waits for its coordinator is appended or refused; now, if it is."""
        outcomes = finished_topics(appends)
        if len(outcomes) < len(appends):
            return SecondStage(self._respond_when_verified(context, request, appends))
        return self._respond_to_appended(context, request, outcomes)

    async def _append_in_transaction_later(
        self,
        context: RequestContext,
        request: ProduceRequest,
        steps: Steps[list[TopicAppends]],
        wanted: BatchCheck | None,
        allowance: Allowance,
    ) -> _Result:
        appends = await self._finish_steps(context, steps, wanted, allowance)
        return await self._respond_when_verified(context, request, appends)

    async def _respond_when_verified(
        self, context: RequestContext, request: ProduceRequest, appends: list[TopicAppends]
    ) -> _Result:
        """Respond when everything that waits for its coordinator is appended or refused."""
        return await self._respond_later(context, request, await wait_until_verified(appends))

    # -- responses

    def _respond_to_appended(
        self, context: RequestContext, request: ProduceRequest, outcomes: list[TopicOutcomes]
    ) -> _Result:
        """Respond to what was appended in this iteration of the loop, now or when the replicas have it."""
        if request.acks == 0:
            return _without_response(context, outcomes)
        appends = waiting(request.acks, outcomes)
        if not appends:
            return respond(self._current_leaders, context, outcomes)
        if any(append.outcome.written is not None for append in appends):
            return SecondStage(self._respond_when_written(context, request, outcomes, appends))
        return self._respond_when_replicated(context, request, outcomes, appends)

    async def _respond_later(
        self, context: RequestContext, request: ProduceRequest, outcomes: list[TopicOutcomes]
    ) -> _Result:
        """Respond to what was not appended in one iteration of the loop."""
        if request.acks == 0:
            return _without_response(context, outcomes)
        # All are judged again: leaders may have changed since the first of them were appended.
        return await self._respond_when_written(context, request, outcomes, appended(outcomes))

    def _respond_when_replicated(
        self,
        context: RequestContext,
        request: ProduceRequest,
        topics: list[TopicOutcomes],
        appends: list[Append],
    ) -> DelayedProduce:
        """Respond when the replicas in sync have the batches that wait, all written here, or the time is over."""

        def build(codes: list[ErrorCode]) -> ProduceResponse | EncodedResponse:
            return respond(self._current_leaders, context, with_codes(topics, appends, codes))

        return DelayedProduce(self._purgatory, appends, request.timeout_ms, build)

    async def _respond_when_written(
        self,
        context: RequestContext,
        request: ProduceRequest,
        topics: list[TopicOutcomes],
        appends: list[Append],
    ) -> ProduceResponse | DelayedProduce:
        """Respond when the batches that wait are finished: first the disk, then, for acks=all, the replicas."""
        codes = await wait_until_written(appends)
        topics = with_codes(topics, appends, codes)
        left = [append for append, code in zip(appends, codes, strict=True) if code is _NONE]
        if request.acks == ACKS_ALL and left:
            return self._respond_when_replicated(context, request, topics, left)
        return respond_with_errors(self._current_leaders, context, topics)


def _refusal(context: RequestContext, acks: int, topic: str) -> AppendOutcome | None:
    """Return why nothing of the request may be appended to the topic; None when it may.

    Apache Kafka lets any client write internal topics that calls itself `__admin_client`; here the coordinators do.
    """
    if context.authorizer is not None and not context.allows(_WRITE, _TOPIC, topic):
        return AppendOutcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if acks not in _ACKS:
        return AppendOutcome(ErrorCode.INVALID_REQUIRED_ACKS)
    if topic in INTERNAL_TOPICS:
        message = f"Cannot append to internal topic {topic}"
        return AppendOutcome(ErrorCode.INVALID_TOPIC_EXCEPTION, message=message)
    return None


def _may_use_transactional_id(context: RequestContext, request: ProduceRequest) -> bool:
    """Return whether the client may write with its transactional id."""
    if context.authorizer is None:
        return True
    assert request.transactional_id is not None
    return context.allows(_WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)


def _without_response(
    context: RequestContext, topics: list[TopicOutcomes]
) -> EncodedResponse | SecondStage:
    """End a request of acks=0: now, or when a slow disk has taken it, for it counts as in flight until then."""
    if has_errors(topics):
        context.connection.abort()
        return NO_RESPONSE
    queued = waiting(0, topics)
    if not queued:
        return NO_RESPONSE
    return SecondStage(_without_response_when_written(context, queued))


async def _without_response_when_written(
    context: RequestContext, queued: list[Append]
) -> EncodedResponse:
    if any(code is not _NONE for code in await wait_until_written(queued)):
        context.connection.abort()
    return NO_RESPONSE
