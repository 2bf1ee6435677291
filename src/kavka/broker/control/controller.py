"""The controller as each broker sees it: this broker when it is elected, else the one that requests go to.

It takes part in the election, runs the controller while it is elected, and otherwise knows the active one.

Electing --elected--> Controller --deposed, session expired--> Electing
     +--another is elected--> Following (one connection to it) --refused, or gone--> Electing
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kavka.broker.context import BrokerContext
from kavka.broker.control.control_request_builder import LargeWork
from kavka.broker.control.control_requests import ControlRequests
from kavka.broker.control.controller_term import ControllerTerm, NotControllerError
from kavka.broker.control.counts import ControllerCounts
from kavka.broker.control.election import ElectedController, Election
from kavka.broker.control.registry_writer import ControllerMovedError
from kavka.broker.control.watch_loop import WatchLoop
from kavka.broker.control.watched_registry import decode_broker
from kavka.core.controller.events import (
    Event,
    UncleanEnabled,
)
from kavka.core.controller.settings import ControllerSettings
from kavka.core.controller.state import ClusterState
from kavka.core.features import FeatureUpdate
from kavka.core.machine import Token
from kavka.core.znodes import Operation
from kavka.ids import TopicId
from kavka.registry.interface import RegistryRefused, decode_or_none
from kavka.wire.stored import znodes

if TYPE_CHECKING:
    from kavka.broker.control.remote_link import RemoteLink

log = logging.getLogger(__name__)

_RETRY_S = 0.1


class Controller:
    """Runs the controller, or follows the active one. `start` once, `stop` once."""

    def __init__(
        self,
        context: BrokerContext,
        control_requests: ControlRequests,
        *,
        handle_here: Callable[[Any], Awaitable[Any]],
        adopted: Callable[[], Awaitable[Sequence[Operation]]],
        was_clean: Callable[[], bool],
        is_registered: Callable[[], bool],
        has_failed: Callable[[], bool],
        large_work: LargeWork,
    ) -> None:
        """Touch nothing before `start`.

        `control_requests` are this broker's own. `handle_here` handles its requests while it is the controller.
        `adopted` is what the first controller of a registry writes besides. `large_work` is the context in which it
        takes in the state of the cluster. The others say whether this broker was stopped cleanly before its start, is
        registered, and must be stopped.
        """
        self._context = context
        self._control_requests = control_requests
        self._handle_here = handle_here
        self._adopted = adopted
        self._was_clean = was_clean
        self._is_registered = is_registered
        self._has_failed = has_failed
        self._large_work = large_work
        self.counts = ControllerCounts()
        self._term: ControllerTerm | None = None
        self._elected: ElectedController | None = None
        self._link: RemoteLink | None = None
        self._is_stopped = False
        self._watch_loop = WatchLoop(
            partial(self._elect, frozenset()),
            log,
            "controller not known",
            retry_s=_RETRY_S,
            expected_errors=(ConnectionError, ControllerMovedError),
            expected_error_level=logging.INFO,
        )
        self._known = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    # -- life

    async def start(self, *, bounced: bool) -> None:
        """Take part in the election; if elected, the controller is active when this returns.

        `bounced` says that this broker stopped uncleanly: offsets that its logs lost may be written again, so their
        readers must see other leader epochs. Raise ConnectionError when the broker's own registry, or its registration,
        failed.
        """
        self._election = Election(
            self._context.registry, self._context.broker_id, self._context.clock, self._adopted
        )
        own = frozenset({int(self._context.broker_id)}) if bounced else frozenset()
        while True:
            try:
                await self._elect(own)
                break
            except (ConnectionError, ControllerMovedError) as error:
                # This broker is registered: a term that ends while it begins, or a session, is followed by another,
                # unless the registry is on its own disk, or the registration has given up.
                if self._context.has_own_registry or self._has_failed():
                    raise
                log.warning("controller not known yet reason=%s", error)
                await asyncio.sleep(_RETRY_S)
        self._watch_loop.start()

    async def resign(self) -> None:
        """Leave the election and resign: a refused connection would count as the controller's death.

        Control requests are sent until `stop`, or until another is elected.
        """
        await self._stop_electing()
        elected = self._elected
        if self._term is not None and elected is not None and elected.is_ours:
            try:
                await self._election.resign(elected)
            except ConnectionError as error:
                log.info(
                    "controller znode not removed reason=%s", error
                )  # it goes with the session

    async def _stop_electing(self) -> None:
        self._is_stopped = True
        await self._watch_loop.stop()

    async def stop(self) -> None:
        """End the term, and leave the election."""
        await self._stop_electing()
        await self._on_controller_resignation()
        await self._disconnect()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def log_directory_failed(self) -> None:
        """Report to the controller that replicas of this broker are offline, unless this broker stops."""
        if self._is_stopped:
            return
        task = asyncio.get_running_loop().create_task(self._write_log_dir_event())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write_log_dir_event(self) -> None:
        data = znodes.encode_log_dir_event(self._context.broker_id)
        logged = ""  # a registry on the full disk refuses for long
        while True:
            try:
                await self._context.registry.create(znodes.LOG_DIR_EVENT, data, sequence=True)
            except ConnectionError as error:
                if str(error) != logged:
                    logged = str(error)
                    log.warning("failed log directory not reported yet reason=%s", logged)
                await asyncio.sleep(_RETRY_S)
                continue
            return

    def session_renewed(self) -> None:
        """Handle a new registry session: the controller znode and the watches are lost."""
        self._elected = None
        self._watch_loop.notify()

    @property
    def refusal(self) -> str | None:
        """Return why the controller's broker refuses this one, which waiting does not mend; None while it does not."""
        return None if self._link is None else self._link.refusal

    # -- this broker as the controller

    @property
    def is_active(self) -> bool:
        """Return whether this broker is the active controller."""
        return self._term is not None

    @property
    def event_queue_size(self) -> int:
        """Return the length of the event queue; 0 when this broker is not the controller."""
        return 0 if self._term is None else self._term.event_queue_size

    @property
    def epoch(self) -> int:
        """Return the epoch of the active controller, -1 when none is known."""
        return -1 if self._elected is None else self._elected.epoch

    @property
    def state(self) -> ClusterState:
        """Return the controller's state of the cluster. Raise NotControllerError."""
        return self._active_term().machine.state

    async def submit_and_wait(self, make_event: Callable[[Token], Event]) -> Any:
        """Submit the event that `make` builds around a token; return the reply.

        Raise NotControllerError when this broker is not the controller, ConnectionError when the registry fails.
        """
        return await self._active_term().submit_and_wait(make_event)

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool
    ) -> dict[str, str | None]:
        """Finalise levels of features; return refusals. Raise NotControllerError, and as `control.features`."""
        return await self._active_term().update_features(updates, validate_only=validate_only)

    def submit(self, event: Event) -> None:
        """Submit an event, if this broker is the active controller."""
        if self._term is not None:
            self._term.submit(event)

    async def flushed(self) -> None:
        """Wait until this broker has applied all its decisions as controller, except for new partitions."""
        if self._term is not None:
            await self._term.flushed()

    async def wait_until_published(self, topic: str) -> None:
        """Wait until this broker shows the new partitions of a topic that it has decided as controller."""
        if self._term is not None:
            await self._term.wait_until_published(topic)

    def _active_term(self) -> ControllerTerm:
        if self._term is None:
            raise NotControllerError("another broker is the controller")
        return self._term

    # -- the other controller

    async def send(self, request: Any, timeout_ms: int) -> Any:
        """Send a request to the active controller; NOT_CONTROLLER is possible. Raise OSError when none is reached."""
        async with asyncio.timeout(timeout_ms / 1000):
            while self._term is None and self._link is None:
                self._known.clear()  # the controller may be known, and not be registered any more
                await self._known.wait()
            if self._link is None:
                return await self._handle_here(request)
            return await self._link.send(request)

    async def _elect(self, bounced: Collection[int]) -> None:
        if not self._is_registered():
            # The controller znode ended with the session. The next one takes part in elections only after the cluster
            # id was checked, and after the broker could register in it.
            await self._on_controller_resignation()
            raise ConnectionError("this broker is not registered")
        before = self._elected
        self._known.clear()
        elected = await self._election.read_or_elect(self._watch_loop.notify)
        self._elected = elected
        has_way = self._term is not None if elected.is_ours else self._link is not None
        if elected == before and has_way:
            self._known.set()
            return
        await self._on_controller_resignation()
        await self._disconnect()
        if elected.is_ours:
            await self._on_controller_failover(elected, bounced)
        else:
            await self._connect(elected)
        if self._term is None and self._link is None:
            asyncio.get_running_loop().call_later(_RETRY_S, self._watch_loop.notify)
        self._known.set()

    async def _on_controller_failover(
        self, elected: ElectedController, bounced: Collection[int]
    ) -> None:
        if self._context.registry.session_id != elected.session_id:
            raise ConnectionError("the session that was elected is over")
        settings = controller_settings(self._context)
        term = ControllerTerm(
            self._context,
            self._control_requests,
            settings,
            elected,
            counts=self.counts,
            was_clean=self._was_clean,
            on_ended=self._on_term_ended,
            large_work=self._large_work,
        )
        try:
            await term.start(bounced)
        except BaseException:
            self._elected = None
            await term.stop()
            raise
        self._term = term
        # A setting may have changed since the first elections, without notification.
        term.submit(UncleanEnabled(None))
        await term.wait_until_published(None)

    def _on_term_ended(self) -> None:
        self._elected = None
        self._watch_loop.notify()

    async def _on_controller_resignation(self) -> None:
        term, self._term = self._term, None
        if term is not None:
            await term.stop()
            log.info("controller resigned broker=%d epoch=%d", self._context.broker_id, term.epoch)

    async def _connect(self, elected: ElectedController) -> None:
        """Keep a connection to the controller's broker: a refused connection means that it is dead."""
        from kavka.broker.control.remote_link import RemoteLink

        registry = self._context.registry
        path = f"{znodes.BROKER_IDS}/{elected.broker_id}"
        try:
            data, _stat = await registry.get(path)
        except RegistryRefused:
            return  # its session expired, so /controller will be free; or it is about to register again
        decoded = decode_or_none(data, decode_broker, path)
        config = self._context.config
        for endpoint in () if decoded is None else decoded[0]:
            if endpoint.listener == config.inter_broker_listener:
                self._link = RemoteLink(
                    self._context.environment.network,
                    endpoint,
                    config.integer("controller.socket.timeout.ms"),
                    lambda: self._refused(elected),
                    lambda: None,
                    security=self._context.peer_security,
                )

    def _refused(self, elected: ElectedController) -> None:
        task = asyncio.get_running_loop().create_task(self._replace_dead_controller(elected))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _replace_dead_controller(self, elected: ElectedController) -> None:
        try:
            await self._election.remove_dead(elected)
        except ConnectionError as error:
            log.info("dead controller not removed reason=%s", error)

    async def _disconnect(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.stop()


def controller_settings(context: BrokerContext) -> ControllerSettings:
    """Return the machine's settings from the broker's."""
    config = context.config

    def allows_unclean(topic: str) -> bool:
        return context.effective_configs.topic(topic)["unclean.leader.election.enable"] is True

    return ControllerSettings(
        allows_unclean=allows_unclean,
        new_topic_id=lambda: TopicId(context.random.random_bytes(16)),
        allows_deletion=config.flag("delete.topic.enable"),
        # No other broker can have a replica, and this one renames logs of topics that are gone.
        ignores_offline_replicas_on_delete=context.has_own_registry,
        rebalances=config.flag("auto.leader.rebalance.enable"),
        rebalance_interval_ms=config.integer("leader.imbalance.check.interval.seconds") * 1000,
        rebalance_percentage=config.integer("leader.imbalance.per.broker.percentage"),
    )
