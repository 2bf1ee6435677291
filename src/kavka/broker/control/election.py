"""The office of the controller: the ephemeral `/controller`, and the epoch that grows with each election.

    /controller   none --create, and raise /controller_epoch, in one multi--> held by this session, or by another's

Who finds that the holder's broker is dead takes the node away and contends; the epoch fences what the deposed one may
still write or order.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from kavka.core.znodes import Check, Create, Delete, Operation, SetData, ZnodeError
from kavka.doors import Clock
from kavka.ids import BrokerId
from kavka.registry.interface import Registry, RegistryRefused, Watch
from kavka.wire.stored import znodes

log = logging.getLogger(__name__)


class Office(NamedTuple):
    """Who rules, as the registry says."""

    broker_id: int
    is_ours: bool
    """Whether this session holds it."""
    epoch: int
    epoch_version: int
    """The version of `/controller_epoch`: it is another for each election."""
    session_id: int
    """The session that holds it."""


class Election:
    """One broker's attempts at the office."""

    def __init__(
        self,
        registry: Registry,
        broker_id: BrokerId,
        clock: Clock,
        adopted: Callable[[], Awaitable[Sequence[Operation]]],
    ) -> None:
        """`adopted` returns what the very first controller of a registry writes besides."""
        self._registry = registry
        self._broker_id = broker_id
        self._clock = clock
        self._adopted = adopted

    async def office(self, watch: Watch) -> Office:
        """Return who rules, contending while nobody does; `watch` is told when that changes. Raise ConnectionError."""
        while True:
            stat = await self._registry.stat(znodes.CONTROLLER, watch)
            if stat is None:
                await self._contend()
                continue
            try:
                epoch, epoch_stat = await self._registry.get(znodes.CONTROLLER_EPOCH)
                data, stat = await self._registry.get(znodes.CONTROLLER)
            except RegistryRefused:
                continue  # it is free again
            is_ours = stat.ephemeral_owner == self._registry.session_id
            holder = znodes.decode_controller(data)
            owner = stat.ephemeral_owner
            return Office(holder, is_ours, int(epoch), epoch_stat.version, owner)

    async def _contend(self) -> None:
        """Take the office, unless somebody is faster."""
        node = znodes.encode_controller(self._broker_id, self._clock.now_ms())
        take: list[Operation] = [Create(znodes.CONTROLLER, node, ephemeral=True)]
        try:
            data, stat = await self._registry.get(znodes.CONTROLLER_EPOCH)
        except RegistryRefused:
            epoch = 1
            take += [Create(znodes.CONTROLLER_EPOCH, b"1"), *await self._adopted()]
        else:
            epoch = int(data) + 1
            take.append(SetData(znodes.CONTROLLER_EPOCH, str(epoch).encode(), stat.version))
        try:
            await self._registry.multi(take)
        except RegistryRefused as refused:
            if refused.error not in (ZnodeError.NODE_EXISTS, ZnodeError.BAD_VERSION):
                raise
            return
        log.info("controller elected broker=%d epoch=%d", self._broker_id, epoch)

    async def depose(self, office: Office) -> None:
        """Take the office from a dead controller, unless it has passed to another already. Raise ConnectionError."""
        if await self._free(office):
            log.warning(
                "dead controller deposed broker=%d epoch=%d", office.broker_id, office.epoch
            )

    async def give_up(self, office: Office) -> None:
        """Give back the office that this session holds. Raise ConnectionError."""
        if await self._free(office):
            log.info("office given back broker=%d epoch=%d", office.broker_id, office.epoch)

    async def _free(self, office: Office) -> bool:
        """Remove the znode of one election's office; false when it is gone, or another election's."""
        fence = Check(znodes.CONTROLLER_EPOCH, office.epoch_version)
        try:
            await self._registry.multi([fence, Delete(znodes.CONTROLLER)])
        except RegistryRefused:
            return False
        return True
