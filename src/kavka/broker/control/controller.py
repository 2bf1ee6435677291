"""A broker's relation to the controller: it contends for the office, rules while it holds it, else knows who does.

Contending --elected--> Ruling --deposed, session over--> Contending
     +--another holds it--> Following (one connection to it) --refused: depose it; gone--> Contending
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kavka.broker.control.counts import ControllerCounts
from kavka.broker.control.election import Election, Office
from kavka.broker.control.reign import NotController, Reign
from kavka.broker.control.requests import answer
from kavka.broker.control.watching import broker_told
from kavka.broker.control.writing import Deposed
from kavka.broker.looking import Looking
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
from kavka.registry.interface import RegistryRefused
from kavka.registry.understanding import understood
from kavka.wire.stored import znodes

if TYPE_CHECKING:
    from kavka.broker.broker import Broker
    from kavka.broker.control.remote_link import RemoteLink

log = logging.getLogger(__name__)

_RETRY_S = 0.1


class Controller:
    """Rules, or knows who rules. `start` once, `stop` once."""

    def __init__(
        self, broker: Broker, adopted: Callable[[], Awaitable[Sequence[Operation]]]
    ) -> None:
        """Touch nothing before `start`; `adopted` is what the first controller of a registry writes besides."""
        self._broker = broker
        self._adopted = adopted
        self.counts = ControllerCounts()
        self._reign: Reign | None = None
        self._office: Office | None = None
        self._link: RemoteLink | None = None
        self._is_stopped = False
        self._looking = Looking(
            partial(self._see, frozenset()),
            log,
            "controller not known",
            retry_s=_RETRY_S,
            passing=(ConnectionError, Deposed),
            passing_level=logging.INFO,
        )
        self._known = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    # -- life

    async def start(self, *, bounced: bool) -> None:
        """Contend; the elected one rules when this returns.

        `bounced` says that this broker stopped uncleanly: what its logs lost may be written anew, so their readers
        must see other leader epochs. Raise ConnectionError when the broker's own registry, or its registration, failed.
        """
        self._election = Election(
            self._broker.registry, self._broker.broker_id, self._broker.clock, self._adopted
        )
        own = frozenset({int(self._broker.broker_id)}) if bounced else frozenset()
        while True:
            try:
                await self._see(own)
                break
            except (ConnectionError, Deposed) as error:
                # This broker is registered: a reign that ends while it begins, or a session, is followed by another,
                # unless the registry is on its own disk, or the registration has given up.
                if self._broker.keeps_registry or self._broker.failed.done():
                    raise
                log.warning("controller not known yet reason=%s", error)
                await asyncio.sleep(_RETRY_S)
        self._looking.start()

    async def leave_office(self) -> None:
        """Contend no more, and give the office back: who finds nobody listening here would take its holder for dead.

        Orders are given until `stop`, or until another is elected.
        """
        await self._contend_no_more()
        office = self._office
        if self._reign is not None and office is not None and office.is_ours:
            try:
                await self._election.give_up(office)
            except ConnectionError as error:
                log.info("office not given back reason=%s", error)  # it goes with the session

    async def _contend_no_more(self) -> None:
        self._is_stopped = True
        await self._looking.stop()

    async def stop(self) -> None:
        """Rule no longer, and contend no more."""
        await self._contend_no_more()
        await self._resign()
        await self._unfollow()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def log_directory_failed(self) -> None:
        """Tell whoever rules that replicas of this broker are offline; one that stops has no say any more."""
        if self._is_stopped:
            return
        task = asyncio.get_running_loop().create_task(self._tell_log_directory_failed())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell_log_directory_failed(self) -> None:
        data = znodes.encode_log_dir_event(self._broker.broker_id)
        while True:
            try:
                await self._broker.registry.create(znodes.LOG_DIR_EVENT, data, sequence=True)
            except ConnectionError as error:
                log.warning("failed log directory not told yet reason=%s", error)
                await asyncio.sleep(_RETRY_S)
                continue
            return

    def session_renewed(self) -> None:
        """Learn that the registry's session is another: office and watches are lost."""
        self._office = None
        self._looking.again()

    # -- ruling

    @property
    def is_active(self) -> bool:
        """Whether this broker rules."""
        return self._reign is not None

    @property
    def waiting_events(self) -> int:
        """How many events wait for their turn; none where this broker does not rule."""
        return 0 if self._reign is None else self._reign.waiting_events

    @property
    def epoch(self) -> int:
        """The epoch of the present controller, -1 when nobody is known."""
        return -1 if self._office is None else self._office.epoch

    @property
    def state(self) -> ClusterState:
        """The picture of the cluster. Raise NotController."""
        return self._ruling().machine.state

    async def ask(self, make: Callable[[Token], Event]) -> Any:
        """Have the event that `make` builds around a token handled; return the reply.

        Raise NotController when this broker does not rule, ConnectionError when the registry does not take it.
        """
        return await self._ruling().ask(make)

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool
    ) -> dict[str, str | None]:
        """Finalise levels of features; return by feature why not. Raise NotController, and as `control.features`."""
        return await self._ruling().update_features(updates, validate_only=validate_only)

    def tell(self, event: Event) -> None:
        """Have an event handled, if this broker rules."""
        if self._reign is not None:
            self._reign.tell(event)

    async def flushed(self) -> None:
        """Wait until this broker obeys and shows all that it has decided as controller, but for new partitions."""
        if self._reign is not None:
            await self._reign.flushed()

    async def shown(self, topic: str) -> None:
        """Wait until this broker shows the new partitions of a topic that it has decided as controller."""
        if self._reign is not None:
            await self._reign.shown(topic)

    def _ruling(self) -> Reign:
        if self._reign is None:
            raise NotController("another broker is the controller")
        return self._reign

    # -- the other controller

    async def send(self, request: Any, timeout_ms: int) -> Any:
        """Ask the controller, whoever it is. Raise OSError when none is reached; it may answer NOT_CONTROLLER."""
        async with asyncio.timeout(timeout_ms / 1000):
            while self._reign is None and self._link is None:
                self._known.clear()  # who rules may be known, and not be registered any more
                await self._known.wait()
            if self._link is None:
                return await answer(self._broker, request)
            return await self._link.send(request)

    async def _see(self, bounced: Collection[int]) -> None:
        registration = self._broker.registration
        if registration is None or registration.epoch < 0:
            # The office went with the session. To contend for it in the next is for who is known to be in this cluster,
            # and for a session that is not given up because it cannot be registered in.
            await self._resign()
            raise ConnectionError("this broker is not registered")
        before = self._office
        self._known.clear()
        office = await self._election.office(self._looking.again)
        self._office = office
        has_way = self._reign is not None if office.is_ours else self._link is not None
        if office == before and has_way:
            self._known.set()
            return
        await self._resign()
        await self._unfollow()
        if office.is_ours:
            await self._rule(office, bounced)
        else:
            await self._connect(office)
        if self._reign is None and self._link is None:
            asyncio.get_running_loop().call_later(_RETRY_S, self._looking.again)
        self._known.set()

    async def _rule(self, office: Office, bounced: Collection[int]) -> None:
        if self._broker.registry.session_id != office.session_id:
            raise ConnectionError("the session that was elected is over")
        settings = controller_settings(self._broker)
        reign = Reign(self._broker, settings, office.epoch, office.epoch_version, self._deposed)
        try:
            await reign.begin(bounced)
        except BaseException:
            self._office = None
            await reign.stop()
            raise
        self._reign = reign
        # A setting may have changed since the first elections, and was told nobody.
        reign.tell(UncleanEnabled(None))
        await reign.shown(None)

    def _deposed(self) -> None:
        self._office = None
        self._looking.again()

    async def _resign(self) -> None:
        reign, self._reign = self._reign, None
        if reign is not None:
            await reign.stop()
            log.info("controller resigned broker=%d epoch=%d", self._broker.broker_id, reign.epoch)

    async def _connect(self, office: Office) -> None:
        """Keep a connection to the controller's broker: when nobody listens there any more, it is dead."""
        from kavka.broker.control.remote_link import RemoteLink

        registry = self._broker.registry
        path = f"{znodes.BROKER_IDS}/{office.broker_id}"
        try:
            data, _stat = await registry.get(path)
        except RegistryRefused:
            return  # its session is over, so its office will be free; or it is about to register anew
        told = understood(data, broker_told, path)
        config = self._broker.config
        for endpoint in () if told is None else told[0]:
            if endpoint.listener == config.inter_broker_listener:
                self._link = RemoteLink(
                    self._broker.host.network,
                    endpoint,
                    config.integer("controller.socket.timeout.ms"),
                    lambda: self._refused(office),
                    lambda: None,
                )

    def _refused(self, office: Office) -> None:
        task = asyncio.get_running_loop().create_task(self._depose(office))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _depose(self, office: Office) -> None:
        try:
            await self._election.depose(office)
        except ConnectionError as error:
            log.info("dead controller not deposed reason=%s", error)

    async def _unfollow(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.stop()


def controller_settings(broker: Broker) -> ControllerSettings:
    """Return what the machine is told by the broker's settings."""
    config = broker.config

    def allows_unclean(topic: str) -> bool:
        return broker.configs.topic(topic)["unclean.leader.election.enable"] is True

    return ControllerSettings(
        allows_unclean=allows_unclean,
        new_topic_id=lambda: TopicId(broker.chance.random_bytes(16)),
        allows_deletion=config.flag("delete.topic.enable"),
        # Nobody else can have a replica, and this broker sets logs of topics that are gone aside.
        deletes_without_failed_disks=broker.keeps_registry,
        rebalances=config.flag("auto.leader.rebalance.enable"),
        rebalance_interval_ms=config.integer("leader.imbalance.check.interval.seconds") * 1000,
        rebalance_percentage=config.integer("leader.imbalance.per.broker.percentage"),
    )
