"""Registration of the broker: the ephemeral `/brokers/ids/<id>`; its czxid is the broker epoch.

register() -> epoch          the node is of an earlier process of this broker: it is removed; of another one: refused
session lost -> new session -> register() again -> a new epoch: requests with the old one are fenced
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kavka.broker.configs.broker_config import BrokerConfig, Endpoint
from kavka.broker.lifecycle.identity import IdentityError
from kavka.broker.lifecycle.previous_sessions import PreviousSessions
from kavka.core import features
from kavka.core.znodes import Check, Delete, Event, EventType, Operation, Stat, ZnodeError
from kavka.ids import BrokerId
from kavka.io import Network
from kavka.registry.interface import Registry, RegistryRefused
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import BrokerNode

log = logging.getLogger(__name__)

_PROBE_S = 1.0
_RETRY_S = 0.5


def broker_node(config: BrokerConfig, endpoints: Sequence[Endpoint], now_ms: int) -> BrokerNode:
    """Return what a broker registers: its advertised endpoints, its rack, the features that it supports."""
    plain = [endpoint for endpoint in endpoints if endpoint.protocol == "PLAINTEXT"]
    return BrokerNode(
        [str(endpoint) for endpoint in endpoints],
        {endpoint.name: endpoint.protocol for endpoint in endpoints},
        config.optional("broker.rack"),
        now_ms,
        plain[0].host if plain else None,
        plain[0].port if plain else -1,
        features.SUPPORTED,
    )


class Registration:
    """Keeps the broker registered, through the sessions of its registry."""

    def __init__(
        self,
        registry: Registry,
        network: Network,
        broker_id: BrokerId,
        node: Callable[[], BrokerNode],
        previous_sessions: PreviousSessions,
        *,
        session_timeout_ms: int,
        same_cluster: Callable[[], Awaitable[None]],
    ) -> None:
        """Register `node`; the wait for an older znode of an owner that may be alive lasts a session timeout.

        `same_cluster` raises IdentityError when the registry, of which a session was lost, is of another cluster now.
        """
        self._registry = registry
        self._network = network
        self._broker_id = broker_id
        self._node = node
        self._previous_sessions = previous_sessions
        self._session_timeout_s = session_timeout_ms / 1000
        self._same_cluster = same_cluster
        self._is_lost = False
        self._renewing: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._on_node_changed: Callable[[Event], None] | None = None
        self._is_node_changed = False
        self.epoch = -1
        """The broker epoch: the czxid of the node; -1 while this broker is not registered."""

    @property
    def _path(self) -> str:
        return f"{znodes.BROKER_IDS}/{self._broker_id}"

    async def register(self) -> int:
        """Register and return the broker epoch. Raise IdentityError when another broker has the id."""
        while True:
            node = self._node()
            await self._previous_sessions.add(self._registry.session_id)
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
            await self._replace_registration(BrokerNode.decode(data), stat, node)

    async def update(self) -> None:
        """Write what this broker registers now into its node, if that is still this session's.

        Where the session is lost meanwhile, the next registration has it.
        """
        while self.epoch >= 0:
            try:
                _data, stat = await self._registry.get(self._path)
                if stat.ephemeral_owner == self._registry.session_id:
                    await self._registry.set(self._path, self._node().encode(), stat.version)
                return
            except RegistryRefused as refused:
                if refused.error is ZnodeError.NO_NODE:
                    return  # the session is over, and so says the watch
                if refused.error is not ZnodeError.BAD_VERSION:
                    log.error("registration not updated reason=%s", refused)
                    return
            except ConnectionError:
                await asyncio.sleep(_RETRY_S)

    async def register_again(self, timeout_s: float | None = None) -> int:
        """Register in a new session, if the registry still belongs to the same cluster. Raise as `register`.

        `timeout_s` bounds the wait for a registry that answers.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._registry.reconnect()
        except TimeoutError as error:
            raise ConnectionError(f"no registry answers within {timeout_s} s") from error
        await self._same_cluster()
        return await self.register()

    async def _replace_registration(self, theirs: BrokerNode, stat: Stat, ours: BrokerNode) -> None:
        """Return when this registration has gone: it was of this broker's last life, or its session ended.

        Raise IdentityError when it may live.
        """
        if await self._may_be_alive(theirs, stat, ours):
            raise IdentityError(
                f"Error while creating ephemeral at {self._path}, node already exists and owner "
                f"'0x{stat.ephemeral_owner:x}' does not match current session '0x{self._registry.session_id:x}': "
                f"a broker with broker.id={self._broker_id} is running at {', '.join(theirs.endpoints)}. "
                "Give this one another broker.id, or stop the other."
            )
        try:
            controller_node = await self._controller_node_of(stat.ephemeral_owner)
            present = await self._registry.stat(self._path)
            if present is None or present.czxid != stat.czxid:
                return  # another process may have registered meanwhile: its node has the same version
            await self._registry.multi([Delete(self._path, stat.version), *controller_node])
        except RegistryRefused as refused:
            if refused.error not in (ZnodeError.NO_NODE, ZnodeError.BAD_VERSION):
                raise
        else:
            log.warning("stale registration removed broker=%d", self._broker_id)

    async def _may_be_alive(self, theirs: BrokerNode, stat: Stat, ours: BrokerNode) -> bool:
        """Return whether an older node's process may be alive; in doubt its session is given time to expire."""
        is_own = stat.ephemeral_owner in self._previous_sessions
        is_here = set(theirs.endpoints) <= set(ours.endpoints)  # it would hear itself
        is_reachable = None if is_here else await self._is_reachable(theirs)
        if is_reachable:
            return True
        if is_own and (is_here or is_reachable is False):
            return False
        # It may live where this one cannot see it: the same address is another machine's, too.
        log.warning("waiting for an older session to end broker=%d", self._broker_id)
        return not await self._wait_until_gone()

    async def _controller_node_of(self, session_id: int) -> list[Operation]:
        """Return operations that remove a dead session's controller znode, which would delay an election."""
        stat = await self._registry.stat(znodes.CONTROLLER)
        if stat is None or stat.ephemeral_owner != session_id:
            return []
        _epoch, epoch_stat = await self._registry.get(znodes.CONTROLLER_EPOCH)
        reread = await self._registry.stat(znodes.CONTROLLER)
        if reread != stat:
            return []
        fence = Check(znodes.CONTROLLER_EPOCH, epoch_stat.version)
        return [fence, Delete(znodes.CONTROLLER, stat.version)]

    async def _is_reachable(self, node: BrokerNode) -> bool | None:
        """Return whether a process listens at a broker's address: yes, no (refused), or None (no response)."""
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

    async def _wait_until_gone(self) -> bool:
        """Wait until the node is gone, for at most a session timeout; return whether it is."""
        gone = asyncio.Event()
        try:
            async with asyncio.timeout(self._session_timeout_s):
                while await self._registry.stat(self._path, lambda _event: gone.set()) is not None:
                    await gone.wait()
                    gone.clear()
        except TimeoutError:
            return False
        return True

    # -- the session

    def keep_registered(
        self, renewed: Callable[[int], Awaitable[None]], failed: Callable[[str], None]
    ) -> None:
        """Register again whenever the session is lost, then await `renewed(epoch)`.

        `failed` is called with the reason when that is impossible, or when another process has taken the id meanwhile:
        two leaders under one id would be worse than one that stops.
        """

        def lost() -> None:
            self._is_lost = True
            if self._renewing is None or self._renewing.done():
                self._renewing = asyncio.ensure_future(self._register_until_done(renewed, failed))

        def node_changed(_event: Event) -> None:
            self._is_node_changed = True
            if self._on_node_changed is not None and (
                self._checking is None or self._checking.done()
            ):
                self._checking = asyncio.ensure_future(self._check_node(failed))

        self._on_node_changed = node_changed
        self._registry.session_lost = lost
        node_changed(Event(EventType.CREATED, self._path))

    async def _check_node(self, failed: Callable[[str], None]) -> None:
        """See whether the node is still this session's, whenever it may not be."""
        while self._is_node_changed:
            self._is_node_changed = False
            session_id = self._registry.session_id
            try:
                stat = await self._registry.stat(self._path, self._on_node_changed)
            except (ConnectionError, RegistryRefused):
                self._is_node_changed = True  # the watch that fired is used up
                if self._is_lost:
                    return  # a new registration checks it
                await asyncio.sleep(_RETRY_S)
                continue
            is_ours = self._registry.session_id == session_id and self.epoch >= 0
            if stat is not None and is_ours and stat.ephemeral_owner != session_id:
                failed(
                    f"another process has registered as broker.id={self._broker_id} with the address of this one: "
                    "two brokers must not share both"
                )

    async def _register_until_done(
        self, renewed: Callable[[int], Awaitable[None]], failed: Callable[[str], None]
    ) -> None:
        while self._is_lost:  # again, if it was lost again before all was done
            self._is_lost = False
            self.epoch = -1
            try:
                epoch = await self.register_again()
            except IdentityError as error:
                failed(str(error))
                return
            except Exception as error:  # without another try the broker would stay unregistered
                # That session expired, too, or no server answers; any other error is a bug, and logged with its
                # traceback.
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
            log.info("registered again broker=%d epoch=%d", self._broker_id, epoch)
            await renewed(epoch)
            self._is_node_changed = True
            await self._check_node(failed)

    async def stop(self) -> None:
        """Stop registering again."""
        self._registry.session_lost = None
        tasks = [task for task in (self._renewing, self._checking) if task is not None]
        self._renewing = self._checking = self._on_node_changed = None
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
        """Ignore the bytes: only the connection matters."""

    def close(self) -> None:
        self._transport.close()
