"""This broker's place among the live ones: the ephemeral `/brokers/ids/<id>`, whose czxid is the broker epoch.

register() -> epoch          this broker's last life has the node: it is removed; another process has it: refused
session lost -> new session -> register() again -> a new epoch: whoever acts on the old one is fenced
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from kavka.broker.identity import IdentityError
from kavka.broker.own_sessions import OwnSessions
from kavka.core.znodes import Check, Delete, Event, EventType, Operation, Stat, ZnodeError
from kavka.doors import Network
from kavka.ids import BrokerId
from kavka.registry.interface import Registry, RegistryRefused
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import BrokerNode

log = logging.getLogger(__name__)

_PROBE_S = 1.0
_RETRY_S = 0.5


class Registration:
    """Keeps the broker registered, through the sessions of its registry."""

    def __init__(
        self,
        registry: Registry,
        network: Network,
        broker_id: BrokerId,
        node: Callable[[], BrokerNode],
        own_sessions: OwnSessions,
        *,
        patience_ms: int,
        same_cluster: Callable[[], Awaitable[None]],
    ) -> None:
        """`node` is what is registered; `patience_ms` bounds the wait for an older node whose owner may live.

        `same_cluster` raises IdentityError when the registry, of which a session was lost, is of another cluster now.
        """
        self._registry = registry
        self._network = network
        self._broker_id = broker_id
        self._node = node
        self._own_sessions = own_sessions
        self._patience_s = patience_ms / 1000
        self._same_cluster = same_cluster
        self._is_lost = False
        self._renewing: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._touched: Callable[[Event], None] | None = None
        self._is_touched = False
        self.epoch = -1
        """The broker epoch: the czxid of the node; -1 while this broker is not registered."""

    @property
    def _path(self) -> str:
        return f"{znodes.BROKER_IDS}/{self._broker_id}"

    async def register(self) -> int:
        """Register and return the broker epoch. Raise IdentityError when another broker has the id."""
        while True:
            node = self._node()
            await self._own_sessions.add(self._registry.session_id)
            try:
                await self._registry.create(self._path, node.encode(), ephemeral=True)
            except RegistryRefused as refused:
                if refused.error is not ZnodeError.NODE_EXISTS:
                    raise
            try:
                data, stat = await self._registry.get(self._path)
            except RegistryRefused as refused:
                if refused.error is ZnodeError.NO_NODE:
                    continue
                raise
            if stat.ephemeral_owner == self._registry.session_id:
                self.epoch = stat.czxid
                return self.epoch
            await self._settle_with(BrokerNode.decode(data), stat, node)

    async def register_anew(self, patience_s: float | None = None) -> int:
        """Register in a new session, if the registry is of the same cluster still. Raise as `register`.

        `patience_s` bounds the wait for a registry that answers.
        """
        try:
            async with asyncio.timeout(patience_s):
                await self._registry.reconnect()
        except TimeoutError as error:
            raise ConnectionError(f"no registry answers within {patience_s} s") from error
        await self._same_cluster()
        return await self.register()

    async def _settle_with(self, theirs: BrokerNode, stat: Stat, ours: BrokerNode) -> None:
        """Return when this registration has gone: it was of this broker's last life, or its session ended.

        Raise IdentityError when it may live.
        """
        if await self._may_live(theirs, stat, ours):
            raise IdentityError(
                f"Error while creating ephemeral at {self._path}, node already exists and owner "
                f"'0x{stat.ephemeral_owner:x}' does not match current session '0x{self._registry.session_id:x}': "
                f"a broker with broker.id={self._broker_id} is running at {', '.join(theirs.endpoints)}. "
                "Give this one another broker.id, or stop the other."
            )
        try:
            office = await self._office_of(stat.ephemeral_owner)
            present = await self._registry.stat(self._path)
            if present is None or present.czxid != stat.czxid:
                return  # another process may have registered meanwhile: its node has the same version
            await self._registry.multi([Delete(self._path, stat.version), *office])
        except RegistryRefused as refused:
            if refused.error not in (ZnodeError.NO_NODE, ZnodeError.BAD_VERSION):
                raise
        else:
            log.warning("registration of a dead process removed broker=%d", self._broker_id)

    async def _may_live(self, theirs: BrokerNode, stat: Stat, ours: BrokerNode) -> bool:
        """Tell whether an older node's process may live; its session is given time to end if nothing else says so."""
        is_own = stat.ephemeral_owner in self._own_sessions
        is_here = set(theirs.endpoints) <= set(ours.endpoints)  # it would hear itself
        answers = None if is_here else await self._answers(theirs)
        if answers:
            return True
        if is_own and (is_here or answers is False):
            return False
        # It may live where this one cannot see it: the same address is another machine's, too.
        log.warning("waiting for an older session to end broker=%d", self._broker_id)
        return not await self._gone()

    async def _office_of(self, session_id: int) -> list[Operation]:
        """Return what takes the controller's office from a dead session: else nobody ruled until it expires."""
        stat = await self._registry.stat(znodes.CONTROLLER)
        if stat is None or stat.ephemeral_owner != session_id:
            return []
        _epoch, epoch_stat = await self._registry.get(znodes.CONTROLLER_EPOCH)
        again = await self._registry.stat(znodes.CONTROLLER)
        if again != stat:
            return []
        fence = Check(znodes.CONTROLLER_EPOCH, epoch_stat.version)
        return [fence, Delete(znodes.CONTROLLER, stat.version)]

    async def _answers(self, node: BrokerNode) -> bool | None:
        """Tell whether somebody listens where a broker was: yes, no (refused), or unknown (silence)."""
        verdict: bool | None = False
        for endpoint in node.endpoints:
            host, _colon, port = endpoint.partition("://")[2].rpartition(":")
            try:
                async with asyncio.timeout(_PROBE_S):
                    probe: Any = await self._network.connect(host.strip("[]"), int(port), _Probe)
                probe.close()
                return True
            except ConnectionRefusedError:
                continue
            except OSError:
                verdict = None
        return verdict

    async def _gone(self) -> bool:
        """Wait until the node is gone, for as long as a session lasts; tell whether it is."""
        gone = asyncio.Event()
        try:
            async with asyncio.timeout(self._patience_s):
                while await self._registry.stat(self._path, lambda _event: gone.set()) is not None:
                    await gone.wait()
                    gone.clear()
        except TimeoutError:
            return False
        return True

    # -- the session

    def keep(
        self, renewed: Callable[[int], Awaitable[None]], failed: Callable[[str], None]
    ) -> None:
        """From now on, register anew whenever the session is lost, then await `renewed(epoch)`.

        `failed` is told why when that cannot be, or when another process took the id while this one lived: two that
        lead under one number would be worse than one that stops.
        """

        def lost() -> None:
            self._is_lost = True
            if self._renewing is None or self._renewing.done():
                self._renewing = asyncio.ensure_future(self._renew(renewed, failed))

        def touched(_event: Event) -> None:
            self._is_touched = True
            if self._touched is not None and (self._looking is None or self._looking.done()):
                self._looking = asyncio.ensure_future(self._look(failed))

        self._touched = touched
        self._registry.session_lost = lost
        touched(Event(EventType.CREATED, self._path))

    async def _look(self, failed: Callable[[str], None]) -> None:
        """See whether the node is still this session's, whenever it may not be."""
        while self._is_touched:
            self._is_touched = False
            session_id = self._registry.session_id
            try:
                stat = await self._registry.stat(self._path, self._touched)
            except (ConnectionError, RegistryRefused):
                self._is_touched = True  # the watch that told is used up
                if self._is_lost:
                    return  # who registers anew looks then
                await asyncio.sleep(_RETRY_S)
                continue
            is_ours = self._registry.session_id == session_id and self.epoch >= 0
            if stat is not None and is_ours and stat.ephemeral_owner != session_id:
                failed(
                    f"another process has registered as broker.id={self._broker_id} with the address of this one: "
                    "two brokers must not share both"
                )

    async def _renew(
        self, renewed: Callable[[int], Awaitable[None]], failed: Callable[[str], None]
    ) -> None:
        while self._is_lost:  # again, if it was lost anew before all was done
            self._is_lost = False
            self.epoch = -1
            try:
                epoch = await self.register_anew()
            except IdentityError as error:
                failed(str(error))
                return
            except Exception as error:  # a broker that tries no more would be nobody for ever
                # That session is over, too, or nobody answers; anything else is a fault, and said with its place.
                is_fault = not isinstance(error, ConnectionError)
                log.log(
                    logging.ERROR if is_fault else logging.WARNING,
                    "not registered yet reason=%s",
                    error,
                    exc_info=error if is_fault else None,
                )
                self._is_lost = True
                await asyncio.sleep(_RETRY_S)
                continue
            log.info("registered anew broker=%d epoch=%d", self._broker_id, epoch)
            await renewed(epoch)
            self._is_touched = True
            await self._look(failed)

    async def stop(self) -> None:
        """Keep nothing any more."""
        self._registry.session_lost = None
        tasks = [task for task in (self._renewing, self._looking) if task is not None]
        self._renewing = self._looking = self._touched = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Probe(asyncio.BufferedProtocol):
    """A connection on which nothing is said."""

    _transport: asyncio.BaseTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(1024)

    def buffer_updated(self, nbytes: int) -> None:
        """Nothing is read: the other side was there, that is all."""

    def close(self) -> None:
        self._transport.close()
