"""Election of the controller: the ephemeral `/controller`, and the epoch that grows with each election.

    /controller   none --create, and raise /controller_epoch, in one multi--> held by this session, or by another's

A broker that detects the death of the controller's broker removes the znode and takes part in the election; the epoch
fences writes and control requests of the deposed one.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from kavka.core.znodes import Check, Create, Delete, Operation, SetData, ZnodeError
from kavka.ids import BrokerId
from kavka.io import Clock
from kavka.registry.interface import Registry, RegistryRefused, Watch
from kavka.wire.stored import znodes

log = logging.getLogger(__name__)


class ElectedController(NamedTuple):
    """The elected controller, as the registry says."""

    broker_id: int
    is_ours: bool
    """True if this session was elected."""
    epoch: int
    epoch_version: int
    """The version of `/controller_epoch`: it is another for each election."""
    session_id: int
    """The session that holds it."""


class Election:
    """The part of a broker in the election."""

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

    async def read_or_elect(self, watch: Watch) -> ElectedController:
        """Return the elected controller, electing this broker if there is none. Raise ConnectionError.

        `watch` is called when that changes.
        """
        while True:
            stat = await self._registry.stat(znodes.CONTROLLER, watch)
            if stat is None:
                await self._try_to_become_controller()
                continue
            try:
                epoch, epoch_stat = await self._registry.get(znodes.CONTROLLER_EPOCH)
                data, stat = await self._registry.get(znodes.CONTROLLER)
            except RegistryRefused:
                continue  # it is free again
            is_ours = stat.ephemeral_owner == self._registry.session_id
            holder = znodes.decode_controller(data)
            owner = stat.ephemeral_owner
            return ElectedController(holder, is_ours, int(epoch), epoch_stat.version, owner)

    async def _try_to_become_controller(self) -> None:
        """Create the controller znode, unless it exists."""
        node = znodes.encode_controller(self._broker_id, self._clock.now_ms())
        operations: list[Operation] = [Create(znodes.CONTROLLER, node, ephemeral=True)]
        try:
            data, stat = await self._registry.get(znodes.CONTROLLER_EPOCH)
        except RegistryRefused:
            epoch = 1
            operations += [Create(znodes.CONTROLLER_EPOCH, b"1"), *await self._adopted()]
        else:
            epoch = int(data) + 1
            operations.append(SetData(znodes.CONTROLLER_EPOCH, str(epoch).encode(), stat.version))
        try:
            await self._registry.multi(operations)
        except RegistryRefused as refused:
            if refused.error not in (ZnodeError.NODE_EXISTS, ZnodeError.BAD_VERSION):
                raise
            return
        log.info("controller elected broker=%d epoch=%d", self._broker_id, epoch)

    async def remove_dead(self, elected: ElectedController) -> None:
        """Remove the znode of a dead controller, unless another is elected already. Raise ConnectionError."""
        if await self._remove_controller_node(elected):
            log.warning(
                "dead controller removed broker=%d epoch=%d", elected.broker_id, elected.epoch
            )

    async def resign(self, elected: ElectedController) -> None:
        """Remove the controller znode of this session. Raise ConnectionError."""
        if await self._remove_controller_node(elected):
            log.info(
                "controller znode removed broker=%d epoch=%d", elected.broker_id, elected.epoch
            )

    async def _remove_controller_node(self, elected: ElectedController) -> bool:
        """Remove the controller znode of one election; return false when it is gone, or another election's."""
        fence = Check(znodes.CONTROLLER_EPOCH, elected.epoch_version)
        try:
            await self._registry.multi([fence, Delete(znodes.CONTROLLER)])
        except RegistryRefused:
            return False
        return True
