"""A controller term, from its election to its end.

Events are handled one at a time, each decided, written, applied and propagated before the next. After a version
conflict the znode is read and the event decided again. When the registry fails in the middle of a write, requests fail
with it, and the term loads everything again as soon as the registry answers, if `/controller` is still of its session.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

from kavka.broker.context import BrokerContext
from kavka.broker.control.channel_manager import ControllerChannelManager
from kavka.broker.control.control_request_builder import LargeWork
from kavka.broker.control.control_requests import ControlRequests
from kavka.broker.control.counts import ControllerCounts
from kavka.broker.control.election import ElectedController
from kavka.broker.control.features import initialize_features, update_features
from kavka.broker.control.registry_writer import (
    ControllerMovedError,
    RegistryWriter,
    VersionConflict,
    WriteRefused,
)
from kavka.broker.control.watched_registry import Changed, Source, WatchedRegistry
from kavka.broker.control.znode_changes import read_change
from kavka.core.controller.broker_updates import BrokerUpdate
from kavka.core.controller.events import (
    DeletionsMarked,
    Elected,
    Event,
    PartitionsRead,
    Snapshot,
    TopicsChanged,
)
from kavka.core.controller.machine import ControllerMachine
from kavka.core.controller.records import Record, topic_of
from kavka.core.controller.replies import (
    Reply,
)
from kavka.core.controller.settings import ControllerSettings
from kavka.core.controller.step import ControllerDecision
from kavka.core.features import FeatureUpdate
from kavka.core.machine import SendReply, Token
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.stored import znodes

log = logging.getLogger(__name__)

_MAX_TRIES = 20
_RETRY_S = 0.1


class NotControllerError(Exception):
    """The broker is not, or no longer, the active controller."""


class ControllerTerm:
    """The controller from one election to its end. `ended` is called when it is over before `stop`."""

    def __init__(
        self,
        context: BrokerContext,
        control_requests: ControlRequests,
        settings: ControllerSettings,
        elected: ElectedController,
        *,
        counts: ControllerCounts,
        was_clean: Callable[[], bool],
        on_ended: Callable[[], None],
        large_work: LargeWork,
    ) -> None:
        """Begin without state; `start` reads it.

        `control_requests` are this broker's own; `was_clean` says whether it was stopped cleanly before its last start.
        """
        self._context = context
        self._was_clean = was_clean
        self._settings = settings
        self.epoch = elected.epoch
        self._epoch_version = elected.epoch_version
        self._on_ended = on_ended
        self._writer = RegistryWriter(context.registry, elected.epoch_version)
        self._watched_registry = WatchedRegistry(
            context.registry, self._changed, self._writer.delete
        )
        self._events: deque[tuple[int, Event | Changed]] = deque()
        # with the time of its arrival, in milliseconds
        self._dirty_sources: dict[Changed, None] = {}
        self._wake = asyncio.Event()
        self._replies: dict[Token, asyncio.Future[Any]] = {}
        self._next_token = 0
        self._publication_waiters: list[tuple[str | None, asyncio.Future[None]]] = []
        self._large_work = large_work
        self._channels = ControllerChannelManager(
            context, control_requests, self.submit, large_work
        )
        self._counts = counts
        self._task: asyncio.Task[None] | None = None
        self._must_reload = False
        self.machine = ControllerMachine(elected.epoch, Snapshot(), settings)

    # -- life

    async def start(self, bounced: Collection[int] = ()) -> None:
        """Load the registry, elect, and continue in the background. Raise ConnectionError, or ControllerMovedError."""
        await initialize_features(self._context, self._writer)
        with self._large_work():
            snapshot = await self._snapshot()
            self.machine = ControllerMachine(self.epoch, snapshot, self._settings)
            await self._handle(Elected(frozenset(bounced), self._returned(snapshot)))
        while self._is_due():
            await self._tick()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _snapshot(self) -> Snapshot:
        """Read everything, and watch it."""
        watched = self._watched_registry
        # These changes are part of the following reads, or reported by brokers after they got the whole state.
        await watched.failed_log_dirs()
        await watched.changed_isrs()
        brokers = await watched.brokers()
        topics = await watched.topics(await watched.topic_names())
        deletions = await watched.deletions()
        moves = await watched.reassignments()
        return Snapshot(brokers, topics, deletions, moves, await watched.preferred_elections())

    def _returned(self, snapshot: Snapshot) -> dict[int, frozenset[TopicPartition]]:
        """Return, by broker, the partitions with a state that has it in sync and is older than its registration.

        The broker died, or lost its session, and returned while there was no controller: it may have fewer records now.
        A newer state was written after that, so another controller must not move the leadership again.
        This broker knows itself whether it stopped cleanly.
        """
        written_at = self._watched_registry.written_at
        own = int(self._context.broker_id) if self._was_clean() else -1
        epochs = {live.broker_id: live.epoch for live in snapshot.brokers if live.broker_id != own}
        returned: dict[int, set[TopicPartition]] = {}
        for topic, read in snapshot.topics.items():
            for partition, (state, _version) in read.states.items():
                topic_partition = TopicPartition(topic, partition)
                for broker in state.in_sync_replicas:
                    if epochs.get(broker, -1) > written_at[topic_partition]:
                        returned.setdefault(broker, set()).add(topic_partition)
        written_at.clear()
        if returned:
            counts = {broker: len(partitions) for broker, partitions in sorted(returned.items())}
            log.info("brokers restarted unnoticed partitions_by_broker=%s", counts)
        return {broker: frozenset(partitions) for broker, partitions in returned.items()}

    async def stop(self) -> None:
        """End the term; pending requests fail with NOT_CONTROLLER."""
        self._watched_registry.stop()
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        replies, self._replies = self._replies, {}
        for future in replies.values():
            if not future.done():
                future.set_exception(NotControllerError("another controller was elected"))
        self._notify_published(has_ended=True)
        await self._channels.stop()

    # -- events

    def submit(self, event: Event) -> None:
        """Queue an event behind those that wait."""
        self._events.append((self._now_ms(), event))
        self._wake.set()

    @property
    def event_queue_size(self) -> int:
        """Return the length of the event queue."""
        return len(self._events)

    async def submit_and_wait(self, make_event: Callable[[Token], Event]) -> Any:
        """Submit the event that `make` builds around a new token; return the reply.

        Raise NotControllerError when the term ends first, ConnectionError when the registry does not take it.
        """
        if self._must_reload:
            raise ConnectionError("the registry does not answer")
        token = self._next_token
        self._next_token += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._replies[token] = future
        self.submit(make_event(token))
        try:
            return await future
        finally:
            self._replies.pop(token, None)

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool
    ) -> dict[str, str | None]:
        """Change levels of features; see `control.features`."""
        return await update_features(
            self._context.registry, self._writer, updates, validate_only=validate_only
        )

    async def flushed(self) -> None:
        """Wait until the controller's own broker has acknowledged all updates that are pending for it now."""
        await self._channels.flushed(self._context.broker_id)

    async def wait_until_published(self, topic: str | None) -> None:
        """Wait until the own broker shows the new partitions of a topic, or, with None, of all: they are led then."""
        if not self._is_published(topic):
            shown: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._publication_waiters.append((topic, shown))
            await shown
        await self.flushed()

    def _is_published(self, topic: str | None) -> bool:
        unpublished = self.machine.outbox.unpublished
        return not (unpublished if topic is None else unpublished.withholds_topic(topic))

    def _notify_published(self, *, has_ended: bool = False) -> None:
        waiting, self._publication_waiters = self._publication_waiters, []
        for topic, shown in waiting:
            if shown.done():
                continue
            if has_ended or self._is_published(topic):
                shown.set_result(None)
            else:
                self._publication_waiters.append((topic, shown))

    def _changed(self, what: Changed) -> None:
        """Read a source again, once, however often it changes until then."""
        if what not in self._dirty_sources:
            self._dirty_sources[what] = None
            self._events.append((self._now_ms(), what))
            self._wake.set()

    # -- handling of events, one at a time

    async def _run(self) -> None:
        try:
            while True:
                try:
                    await self._next()
                except ConnectionError as error:
                    log.warning("registry not reachable reason=%s", error)
                    await self._recover()
        except ControllerMovedError:
            log.info(
                "controller moved to another broker broker=%d epoch=%d",
                self._context.broker_id,
                self.epoch,
            )
            self._notify_published(has_ended=True)
            self._on_ended()

    async def _next(self) -> None:
        """Handle one event or one thing that is due, waiting for it if need be."""
        if self._events:
            queued_ms, item = self._events.popleft()
            self._counts.queued.record(self._now_ms() - queued_ms)
            await self._process(item)
        elif self._is_due():
            await self._process(None)
        else:
            await self._wait_for_event()

    async def _process(self, item: Event | Changed | None) -> None:
        """Take one thing to its end: an event, a source to be read, or what is due."""
        try:
            if item is None:
                await self._tick()
                return
            event = await self._read(item) if isinstance(item, Changed) else item
            if event is not None:
                await self._handle(event)
        except (ConnectionError, ControllerMovedError):
            raise
        except Exception:
            # A bug in one event must not take the controller, and then the next one, away from all others.
            log.exception("controller failed in an event=%s", item)
            self._give_up(item, "the controller failed")
            await asyncio.sleep(_RETRY_S)

    def _now_ms(self) -> int:
        return self._context.clock.tick_ms()

    def _is_due(self) -> bool:
        deadline = self.machine.deadline_ms()
        return deadline is not None and deadline <= self._now_ms()

    async def _wait_for_event(self) -> None:
        self._wake.clear()
        deadline = self.machine.deadline_ms()
        if deadline is None:
            await self._wake.wait()
            return
        try:
            async with asyncio.timeout(max(0, deadline - self._now_ms()) / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _handle(self, event: Event) -> None:
        started_ms = self._now_ms()
        for _attempt in range(_MAX_TRIES):
            if await self._commit(self.machine.handle(event, self._now_ms())):
                self._counts.handled(event, self._now_ms() - started_ms)
                return
        log.error("event failed, too many version conflicts event=%s", type(event).__name__)
        self._give_up(event, "the registry always changes")

    async def _tick(self) -> None:
        await self._commit(self.machine.tick(self._now_ms()))

    async def _commit(self, decision: ControllerDecision) -> bool:
        """Write, apply and propagate; return False when the event has to be handled again."""
        try:
            await self._writer.write(decision.records, self._apply, self._update_channels)
        except VersionConflict as overtaken:
            log.info("version conflict, deciding again reason=%s", overtaken)
            self.machine.version_conflict(decision, overtaken.applied)
            await self._reread(decision.records[overtaken.applied :])
            return False
        except WriteRefused as unwritable:
            await self._abandon(decision, unwritable)
            return True
        except ConnectionError as error:
            for effect in decision.effects:
                if isinstance(effect, SendReply):
                    self._fail(effect.token, error)
            raise
        for effect in decision.effects:
            if isinstance(effect, BrokerUpdate):
                self.machine.outbox.add(effect)
            else:
                self._reply(effect.token, effect.reply)
        self._update_channels()
        return True

    async def _abandon(self, decision: ControllerDecision, unwritable: WriteRefused) -> None:
        """Reply with the reason why a decision is never written; what it began stays."""
        log.error("decision not written reason=%s", unwritable)
        reason = f"The registry does not take it, it may be too large: {unwritable}"
        self.machine.version_conflict(decision, unwritable.applied)
        refused = self.machine.failed(decision, ErrorCode.POLICY_VIOLATION, self._now_ms(), reason)
        for effect in refused.effects:
            if isinstance(effect, SendReply):
                self._reply(effect.token, effect.reply)
        self._update_channels()
        await asyncio.sleep(_RETRY_S)  # what is due may be decided, and refused, again at once

    def _apply(self, record: Record) -> None:
        self._counts.written(record, self.machine.state)
        self.machine.apply(record)

    def _update_channels(self) -> None:
        self._channels.update(self.machine)
        if self._publication_waiters:
            self._notify_published()

    def _reply(self, token: Token, reply: Reply) -> None:
        future = self._replies.get(token)
        if future is not None and not future.done():
            future.set_result(reply)

    def _fail(self, token: Token, error: ConnectionError) -> None:
        future = self._replies.get(token)
        if future is not None and not future.done():
            future.set_exception(ConnectionError(str(error)))

    def _give_up(self, item: object, reason: str) -> None:
        """Fail the request of an event that will not be answered."""
        token = getattr(item, "token", None)
        if token is not None:
            self._fail(token, ConnectionError(reason))

    async def _reread(self, records: Sequence[Record]) -> None:
        """Pass the present znodes to the machine after a version conflict."""
        concerned = dict.fromkeys(topic_of(record) for record in records)
        names = [name for name in concerned if name is not None]
        topics = await self._watched_registry.topics(names)
        unreadable = [name for name in names if name in self._watched_registry.unreadable]
        removed = [name for name in names if name not in topics and name not in unreadable]
        states = {
            TopicPartition(name, partition): read.states.get(partition)
            for name, read in topics.items()
            for partition in read.node.assignment
        }
        moves = await self._watched_registry.reassignments()
        marks = await self._watched_registry.deletions()
        for event in (
            PartitionsRead(states),
            TopicsChanged(topics, removed, unreadable),
            DeletionsMarked(marks),
        ):
            # It decides on its writes again: only broker updates and replies are kept.
            for effect in self.machine.handle(event, self._now_ms()).effects:
                if isinstance(effect, BrokerUpdate):
                    self.machine.outbox.add(effect)
                else:
                    self._reply(effect.token, effect.reply)
        self.machine.state.reassignment_node = dict(moves or {})
        if not self.machine.state.deletions.keys() >= set(marks):
            self._changed(Changed(Source.DELETIONS))  # marks that say nothing are to be taken away

    async def _recover(self) -> None:
        """Load everything again when the registry answers, to see what was lost. Raise ControllerMovedError."""
        self._must_reload = True
        for token in list(self._replies):
            self._fail(token, ConnectionError("the registry does not answer"))
        while True:
            await asyncio.sleep(_RETRY_S)
            try:
                await self._is_still_controller()
                with self._large_work():
                    await self._reload()
                return
            except ControllerMovedError:
                raise
            except ConnectionError:
                self._must_reload = True
            except Exception:
                # A bug must not end the term without an election: there would be no controller.
                log.exception("controller failed to reload")
                self._must_reload = True

    async def _reload(self) -> None:
        before = self.machine
        snapshot = await self._snapshot()
        self.machine = ControllerMachine(self.epoch, snapshot, self._settings)
        self.machine.state.inherit(before.state)
        self.machine.outbox.unpublished = before.outbox.unpublished
        self._channels.close_all()
        self._must_reload = False
        await self._handle(Elected(returned=self._returned(snapshot)))

    async def _is_still_controller(self) -> None:
        registry = self._context.registry
        epoch = await registry.stat(znodes.CONTROLLER_EPOCH)
        elected = await registry.stat(znodes.CONTROLLER)
        if epoch is None or epoch.version != self._epoch_version:
            raise ControllerMovedError("another controller was elected")
        if elected is None or elected.ephemeral_owner != registry.session_id:
            raise ControllerMovedError("the session is over")

    async def _read(self, what: Changed) -> Event | None:
        self._dirty_sources.pop(what, None)
        return await read_change(self._watched_registry, self.machine.state, what)
