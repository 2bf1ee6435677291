"""The decisions about verifications: events come in, effects go out. Pure.

    VerificationNeeded --> SendRequest (to its coordinator), or VerifyHere, AddHere --> VerificationEnded
                             ^                                                   |
                             '---- after a back-off, while it adds, for a time <-'  CONCURRENT_TRANSACTIONS

A leader verifies, or, for a producer of version 2, adds its partition to the transaction: `adds`. While it adds it
asks again for a moment as long as the last transaction is still being completed, since that is soon over.

    what the coordinator says                             the code
    a code of the partition                               that
    an error of the whole request                         that; CLUSTER_AUTHORIZATION_FAILED, which is about this broker
                                                          and not about the client: INVALID_TXN_STATE
    nothing: it is too old                                NONE, as in Kafka; while it adds: INVALID_TXN_STATE
    nothing: the connection broke, or the time is over    NETWORK_EXCEPTION
    nothing: another broker coordinates the id by now     NOT_COORDINATOR; others of the request: NETWORK_EXCEPTION

All verifications for one broker go into one request, and one request is in flight to each. A transaction that is
coordinated here takes one change at a time, and refuses others until that is replicated: so what is to be added
meanwhile goes together, too. What waits for one verification goes on in the order in which it came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import NamedTuple

from kavka.core.machine import Token
from kavka.core.verification.coordinator_queue import CoordinatorQueue, PendingVerification
from kavka.core.verification.events import (
    AddedHere,
    AddHere,
    AddSubmitted,
    CoordinatorTooOld,
    Effect,
    Event,
    GiveUpRequest,
    KnownCoordinators,
    MetadataChanged,
    RequestFailed,
    ResponseReceived,
    SendRequest,
    Stopped,
    TransactionalProducer,
    VerificationCodes,
    VerificationEnded,
    VerificationNeeded,
    VerificationRequest,
    VerificationSettings,
    VerifiedHere,
    VerifyHere,
)
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicPartition


class _Adding(NamedTuple):
    """The partitions to be added to a transaction that is coordinated here: those submitted, and those after them."""

    submitted: list[PendingVerification]
    waiting: list[PendingVerification]


class VerificationMachine:
    """All verifications of one broker."""

    def __init__(
        self, broker_id: BrokerId, coordinators: KnownCoordinators, settings: VerificationSettings
    ) -> None:
        """Start without verifications; `broker_id` is this broker's."""
        self._broker_id = broker_id
        self._coordinators = coordinators
        self._settings = settings
        self._pending: dict[Hashable, PendingVerification] = {}  # all that are not answered
        self._queues: dict[BrokerId, CoordinatorQueue] = {}
        self._in_flight: dict[int, CoordinatorQueue] = {}
        self._verifying: dict[int, PendingVerification] = {}  # here
        self._adding: dict[TransactionalProducer, _Adding] = {}  # here
        self._backing_off: deque[tuple[int, PendingVerification]] = deque()
        self._last_number = 0
        self._now_ms = 0
        self._is_stopped = False
        self._effects: list[Effect] = []

    @property
    def needs_metadata(self) -> bool:
        """Return whether a verification is with another broker, so that `MetadataChanged` matters."""
        return bool(self._in_flight)

    def is_pending(self, key: Hashable) -> bool:
        """Return whether a verification has not ended yet."""
        return key in self._pending

    def may_add_at_once(self, key: Hashable, request: VerificationRequest) -> bool:
        """Return whether this broker's own coordinator may be asked without an event, which its reply may save.

        Nothing else is being added to the transaction here. Where the reply is still to come, `AddSubmitted` follows.
        """
        is_free = key not in self._pending and request[:3] not in self._adding
        return is_free and not self._is_stopped

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Decide about one event; the effects are to be performed in their order."""
        self._now_ms = now_ms
        match event:
            case VerificationNeeded():
                self._add(event)
            case AddSubmitted(token, key, request):
                verification = self._new_verification(token, key, request)
                self._adding[TransactionalProducer(*request[:3])] = _Adding([verification], [])
            case VerifiedHere(number, code):
                self._finish(self._verifying.pop(number), code)
            case AddedHere(producer, code):
                self._added(producer, code)
            case ResponseReceived(number, codes, error):
                if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                    error = ErrorCode.INVALID_TXN_STATE
                self._end_request(number, codes, error)
            case RequestFailed(number):
                self._end_request(number, {}, ErrorCode.NETWORK_EXCEPTION)
            case CoordinatorTooOld(number):
                self._end_request(number, {}, ErrorCode.NONE)
            case MetadataChanged():
                self._follow_metadata()
            case Stopped():
                self._stop()
        return self._take_effects()

    def tick(self, now_ms: int) -> list[Effect]:
        """Repeat what is due."""
        self._now_ms = now_ms
        while self._backing_off and self._backing_off[0][0] <= now_ms:
            self._route(self._backing_off.popleft()[1])
        return self._take_effects()

    def deadline_ms(self) -> int | None:
        """Return when `tick` next has something to do; None is never."""
        return self._backing_off[0][0] if self._backing_off else None

    def take_requests(self, number: int) -> tuple[VerificationRequest, ...]:
        """Return what a request to another broker has; it is in flight from now on."""
        queue = self._in_flight.get(number)
        return () if queue is None else queue.take()

    def take_partitions(self, producer: TransactionalProducer) -> tuple[TopicPartition, ...]:
        """Return what is to be added to a transaction here; it is submitted from now on. Empty after a stop."""
        adding = self._adding.get(producer)
        if adding is None:
            return ()
        verifications = adding.waiting
        self._adding[producer] = _Adding(verifications, [])
        return tuple(
            dict.fromkeys(verification.request.topic_partition for verification in verifications)
        )

    # Verifications

    def _add(self, event: VerificationNeeded) -> None:
        if self._is_stopped:
            self._effects.append(VerificationEnded((event.token,), ErrorCode.NETWORK_EXCEPTION))
            return
        verification = self._pending.get(event.key)
        if verification is not None:
            verification.tokens.append(event.token)
            return
        self._route(self._new_verification(*event))

    def _new_verification(
        self, token: Token, key: Hashable, request: VerificationRequest
    ) -> PendingVerification:
        left_ms = self._settings.retry_backoff_max_ms if request.adds else 0
        verification = self._pending[key] = PendingVerification(key, request, left_ms)
        verification.tokens.append(token)
        return verification

    def _route(self, verification: PendingVerification) -> None:
        """Hand a verification to its coordinator."""
        coordinator = self._coordinators.known_leader_of(verification.request.transactional_id)
        if isinstance(coordinator, ErrorCode):
            self._finish(verification, coordinator)
        elif coordinator == self._broker_id:
            self._route_here(verification)
        else:
            queue = self._queues.get(coordinator)
            if queue is None:
                queue = self._queues[coordinator] = CoordinatorQueue()
            queue.add(verification)

    def _finish(self, verification: PendingVerification, code: ErrorCode) -> None:
        """Report the response, or ask again after a back-off."""
        if self._is_stopped:
            return
        if code is ErrorCode.CONCURRENT_TRANSACTIONS and verification.left_ms > 0:
            backoff_ms = self._settings.retry_backoff_ms
            verification.left_ms -= backoff_ms
            self._backing_off.append((self._now_ms + backoff_ms, verification))
            return
        del self._pending[verification.key]
        self._effects.append(VerificationEnded(tuple(verification.tokens), code))

    def _stop(self) -> None:
        """End everything; answers that are still to come are for nothing."""
        self._is_stopped = True
        verifications = list(self._pending.values())
        self._pending.clear()
        self._queues.clear()
        self._in_flight.clear()
        self._adding.clear()
        self._backing_off.clear()
        for verification in verifications:
            ended = VerificationEnded(tuple(verification.tokens), ErrorCode.NETWORK_EXCEPTION)
            self._effects.append(ended)

    # This broker's own coordinator

    def _route_here(self, verification: PendingVerification) -> None:
        request = verification.request
        if not request.adds:
            number = self._next_number()
            self._verifying[number] = verification
            self._effects.append(VerifyHere(number, request))
            return
        producer = TransactionalProducer(*request[:3])
        adding = self._adding.get(producer)
        if adding is None:
            adding = self._adding[producer] = _Adding([], [])
            self._effects.append(AddHere(producer))
        adding.waiting.append(verification)

    def _added(self, producer: TransactionalProducer, code: ErrorCode) -> None:
        adding = self._adding.pop(producer, None)
        if adding is None:
            return  # stopped
        if adding.waiting:
            self._adding[producer] = _Adding([], adding.waiting)
            self._effects.append(AddHere(producer))
        for verification in adding.submitted:
            self._finish(verification, code)

    # Other brokers

    def _end_request(self, number: int, codes: VerificationCodes, otherwise: ErrorCode) -> None:
        """Finish the verifications of a request: those without a code get `otherwise`."""
        queue = self._in_flight.pop(number, None)
        if queue is None:
            return  # given up
        for verification in queue.end():
            request = verification.request
            # One may go without verification, where the coordinator is too old, but not without taking part.
            is_missing = request.adds and otherwise is ErrorCode.NONE
            default = ErrorCode.INVALID_TXN_STATE if is_missing else otherwise
            key = (request.transactional_id, request.topic_partition)
            self._finish(verification, codes.get(key, default))

    def _follow_metadata(self) -> None:
        """Wait no longer for brokers that coordinate no more; one that hangs would never say so."""
        for broker_id, queue in self._queues.items():

            def has_moved(request: VerificationRequest, broker_id: BrokerId = broker_id) -> bool:
                return self._coordinators.known_leader_of(request.transactional_id) != broker_id

            moved, given_up, unanswered = queue.take_moved(has_moved)
            if given_up is not None:
                del self._in_flight[given_up]
                self._effects.append(GiveUpRequest(given_up, broker_id))
            for verification in moved:
                self._finish(verification, ErrorCode.NOT_COORDINATOR)
            for verification in unanswered:
                self._finish(verification, ErrorCode.NETWORK_EXCEPTION)

    # Effects

    def _take_effects(self) -> list[Effect]:
        """Return the effects, with a request to each broker that has none in flight."""
        effects, self._effects = self._effects, []
        for broker_id, queue in self._queues.items():
            if queue.needs_request:
                number = self._next_number()
                queue.begin(number)
                self._in_flight[number] = queue
                effects.append(SendRequest(number, broker_id))
        return effects

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number
