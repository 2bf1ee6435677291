"""The requests of partition leaders to the coordinators of transactions.

The shell of the machine of `kavka.core.verification`: it has one connection to each broker, the way to this broker's
own coordinators, and one timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import Any, Final

from kavka.broker.context import BrokerContext
from kavka.broker.coordination.add_partitions_messages import codes_of, request_of
from kavka.broker.coordination.broker_connection import BrokerConnection
from kavka.broker.coordination.machine_shell import EffectTasks, MachineTimer
from kavka.broker.coordination.shard_reply import ShardReply
from kavka.broker.coordination.transaction_coordinators import TransactionCoordinators
from kavka.core.machine import Token
from kavka.core.transaction.events import AddPartitions, AddPartitionsReply, Verify, VerifyReply
from kavka.core.transaction.events import Event as TransactionEvent
from kavka.core.verification import events
from kavka.core.verification.events import Effect, Event, VerificationRequest
from kavka.core.verification.machine import VerificationMachine
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse

log = logging.getLogger(__name__)

_FIRST_BATCHED: Final = 4
_LEADERS_ADD_PARTITIONS: Final = 2
"""The transaction version in which leaders add partitions."""


class VerificationChannel:
    """Asks coordinators, here and at other brokers."""

    def __init__(
        self,
        context: BrokerContext,
        transactions: TransactionCoordinators,
        ended: Callable[[tuple[Token, ...], ErrorCode], None],
    ) -> None:
        """Start without connections; `ended` is called with what has waited, in order, and the response."""
        self._context = context
        self._transactions = transactions
        self._ended = ended
        integer = context.config.integer
        settings = events.VerificationSettings(
            integer("add.partitions.to.txn.retry.backoff.ms"),
            integer("add.partitions.to.txn.retry.backoff.max.ms"),
        )
        self._machine = VerificationMachine(context.broker_id, transactions, settings)
        self._connections: dict[BrokerId, BrokerConnection] = {}
        self._tasks = EffectTasks()
        self._in_flight: dict[int, asyncio.Task[None]] = {}
        self._to_add: list[events.TransactionalProducer] = []
        self._adding: asyncio.Handle | None = None
        """The call that asks for those of `_to_add`."""
        self._timer = MachineTimer(context.clock, self._tick)
        self._metadata_changes: asyncio.Future[None] | None = None
        self._last_token = 0

    def new_token(self) -> Token:
        """Return a token for `verify`."""
        self._last_token += 1
        return self._last_token

    def is_pending(self, key: Hashable) -> bool:
        """Return whether a verification has not ended yet, so that what comes after it has to wait, too."""
        return self._machine.is_pending(key)

    def verify(self, token: Token, key: Hashable, request: VerificationRequest) -> None:
        """Ask, or wait for the response that what came before with the same key waits for."""
        self._handle(events.VerificationNeeded(token, key, request))

    def add_at_once(self, key: Hashable, request: VerificationRequest) -> ShardReply | None:
        """Ask this broker's own coordinator now to add a partition; None where another broker, or the order, forbids.

        A reply that is there and not NONE counts for nothing: `verify` asks again, and later if need be. For one that
        is still to come, `wait_for` must follow.
        """
        if not self._machine.may_add_at_once(key, request):
            return None
        shard = self._transactions.shard_of(request.transactional_id)
        if isinstance(shard, ErrorCode):
            return None
        producer, partitions = request[:3], (request.topic_partition,)
        return shard.ask(
            lambda token: AddPartitions(token, *producer, partitions, _LEADERS_ADD_PARTITIONS)
        )

    def wait_for(
        self, token: Token, key: Hashable, request: VerificationRequest, reply: ShardReply
    ) -> None:
        """Wait for a reply of `add_at_once`; what comes meanwhile waits behind it."""
        self._handle(events.AddSubmitted(token, key, request))
        self._go_on_with(reply, _added_by(events.TransactionalProducer(*request[:3])))

    async def stop(self) -> None:
        """End all that waits, with NETWORK_EXCEPTION."""
        self._handle(events.Stopped())
        self._timer.cancel()
        self.flush()
        await self._tasks.stop()
        for connection in self._connections.values():
            connection.abort()

    # -- the machine

    def _handle(self, event: Event) -> None:
        self._perform(self._machine.handle(event, self._context.clock.tick_ms()))

    def _tick(self) -> None:
        self._perform(self._machine.tick(self._context.clock.tick_ms()))

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case events.VerificationEnded(tokens, code):
                    self._ended(tokens, code)
                case events.SendRequest():
                    self._in_flight[effect.number] = self._tasks.spawn(self._deliver(effect))
                case events.VerifyHere():
                    self._verify_here(effect)
                case events.AddHere(producer):
                    self._add_soon(producer)
                case events.GiveUpRequest(number, broker_id):
                    log.info("not verified coordinator=%d reason=moved", broker_id)
                    self._in_flight.pop(number).cancel()
                    self._connection(broker_id).abort()
        self._timer.set(self._machine.deadline_ms())
        if self._metadata_changes is None and self._machine.needs_metadata:
            self._metadata_changes = self._context.metadata.next_change()
            self._metadata_changes.add_done_callback(self._metadata_changed)

    def _metadata_changed(self, _change: object) -> None:
        self._metadata_changes = None
        self._handle(events.MetadataChanged())

    # -- other brokers

    async def _deliver(self, request: events.SendRequest) -> None:
        event: Event = events.RequestFailed(request.number)
        try:
            event = await self._send(request)
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                event = events.CoordinatorTooOld(request.number)
            log.info("not verified coordinator=%d reason=%s", request.broker_id, error)
        except (OSError, CorruptFrame) as error:
            log.info("not verified coordinator=%d reason=%s", request.broker_id, error)
        except Exception:
            # A bug must not block later verifications.
            log.exception("not verified coordinator=%d", request.broker_id)
        self._in_flight.pop(request.number, None)
        self._handle(event)

    async def _send(self, request: events.SendRequest) -> Event:
        requests = self._machine.take_requests(request.number)
        if not requests:
            return events.ResponseReceived(request.number, {}, ErrorCode.NONE)
        connection = self._connection(request.broker_id)
        peer = await connection.connected()
        if peer.version_of(ApiKey.ADD_PARTITIONS_TO_TXN) < _FIRST_BATCHED:
            return events.CoordinatorTooOld(request.number)
        response: AddPartitionsToTxnResponse = await peer.send(
            request_of(requests), timeout_ms=connection.timeout_ms
        )
        error = ErrorCode.of(response.error_code)
        if error is not ErrorCode.NONE:
            log.warning("not verified coordinator=%d error=%s", request.broker_id, error.name)
        return events.ResponseReceived(request.number, codes_of(response), error)

    def _connection(self, broker_id: BrokerId) -> BrokerConnection:
        connection = self._connections.get(broker_id)
        if connection is None:
            timeout_ms = self._context.config.integer("request.timeout.ms")
            connection = BrokerConnection(self._context, broker_id, "verifier", timeout_ms)
            self._connections[broker_id] = connection
        return connection

    # -- this broker's own coordinators

    def _verify_here(self, effect: events.VerifyHere) -> None:
        transactional_id, producer_id, producer_epoch, topic_partition, _adds = effect.request

        def event_of(reply: VerifyReply | ErrorCode) -> Event:
            code = reply if isinstance(reply, ErrorCode) else reply.partitions[0][1]
            return events.VerifiedHere(effect.number, code)

        self._ask(
            transactional_id,
            lambda token: Verify(
                token, transactional_id, producer_id, producer_epoch, (topic_partition,)
            ),
            event_of,
        )

    def _add_soon(self, producer: events.TransactionalProducer) -> None:
        """Ask in the next iteration of the loop, unless `flush` comes before."""
        self._to_add.append(producer)
        if self._adding is None:
            self._adding = asyncio.get_running_loop().call_soon(self._add_all)

    def flush(self) -> None:
        """Ask now: a request has brought all partitions that it has, which are to be added together."""
        if self._adding is not None:
            self._adding.cancel()
            self._add_all()

    def _add_all(self) -> None:
        self._adding = None
        producers, self._to_add = self._to_add, []
        for producer in producers:
            self._add_here(producer)

    def _add_here(self, producer: events.TransactionalProducer) -> None:
        partitions = self._machine.take_partitions(producer)
        if not partitions:
            return

        self._ask(
            producer.transactional_id,
            lambda token: AddPartitions(token, *producer, partitions, _LEADERS_ADD_PARTITIONS),
            _added_by(producer),
        )

    def _ask(
        self,
        transactional_id: str,
        make_event: Callable[[Token], TransactionEvent],
        event_of: Callable[[Any], Event],
    ) -> None:
        """Ask a shard and go on with its reply: now, or in the iteration of the loop after that in which it comes."""
        try:
            reply = self._transactions.ask(transactional_id, make_event)
        except Exception:
            # A bug must not leave what waits without a response, nor block later requests.
            log.exception("not verified id=%s", transactional_id)
            self._handle(event_of(ErrorCode.NETWORK_EXCEPTION))
            return
        if reply.done():
            self._handle(event_of(reply.value))
        else:
            self._go_on_with(reply, event_of)

    def _go_on_with(self, reply: ShardReply, event_of: Callable[[Any], Event]) -> None:
        loop = asyncio.get_running_loop()

        def notify() -> None:
            loop.call_soon(self._go_on, reply, event_of)

        reply.call_when_done(notify)

    def _go_on(self, reply: ShardReply, event_of: Callable[[Any], Event]) -> None:
        self._handle(event_of(reply.value))


def _added_by(
    producer: events.TransactionalProducer,
) -> Callable[[AddPartitionsReply | ErrorCode], Event]:
    """Return what makes an event of the reply to what was to be added to a producer's transaction."""

    def event_of(reply: AddPartitionsReply | ErrorCode) -> Event:
        code = reply if isinstance(reply, ErrorCode) else reply.error_code
        return events.AddedHere(producer, code)

    return event_of
