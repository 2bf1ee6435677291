"""Validation of control requests from the network: only those of the registered controller are carried out.

    claim (controller id, controller epoch, broker epoch)
        broker with a registry of its own     -> CLUSTER_AUTHORIZATION_FAILED: its only controller is in this process
        older broker or controller epoch      -> STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH
        as confirmed by the registry before   -> applied
        anything else                         -> the registry is read; what it does not confirm is stale

A new controller may send requests before this broker has learned of its election, so a newer epoch is no reason to
refuse: it is looked up. One read serves all waiting claims; requests of the confirmed controller do not wait for it.
Requests with one claim are admitted in the sequence in which they came.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from kavka.broker.context import BrokerContext
from kavka.core.znodes import ZnodeError
from kavka.errors import ErrorCode
from kavka.registry.interface import RegistryRefused, sync
from kavka.wire.stored import znodes

if TYPE_CHECKING:
    from kavka.wire.messages.leader_and_isr import LeaderAndIsrRequest
    from kavka.wire.messages.stop_replica import StopReplicaRequest
    from kavka.wire.messages.update_metadata import UpdateMetadataRequest

log = logging.getLogger(__name__)


class _ClaimedController(NamedTuple):
    """The claimed controller id, controller epoch and broker epoch of a request."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int


class ControlRequestCheck:
    """Judges the claims of control requests from the network. Those of this broker's own controller need none."""

    def __init__(self, context: BrokerContext) -> None:
        """Begin without a controller; the registry is read for one."""
        self._context = context
        self._controller = (-1, -1)
        """Id and epoch, as the registry confirmed: an epoch belongs to one controller, so this stays true."""
        self._broker_epoch = -1
        """Of this broker's registration, as the registry confirmed; `BrokerContext` may have it later."""
        self._waiting: list[tuple[_ClaimedController, asyncio.Future[ErrorCode]]] = []
        self._reading: asyncio.Task[None] | None = None

    async def check(
        self,
        request: LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest,
        *,
        is_authorized: bool,
    ) -> ErrorCode:
        """Return why a request is refused, or NONE. Raise ConnectionError when the registry does not answer.

        `is_authorized` is whether the client may act in the cluster at all (ClusterAction).
        """
        if not is_authorized:
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        claim = _ClaimedController(
            request.controller_id, request.controller_epoch, request.broker_epoch
        )
        code = self._known(claim)
        if code is None:
            judged: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
            self._waiting.append((claim, judged))
            if self._reading is None:
                self._reading = asyncio.get_running_loop().create_task(self._read_until_decided())
            code = await judged
        if code is not ErrorCode.NONE:
            self._log_refusal(claim, code)
        return code

    def _log_refusal(self, claim: _ClaimedController, code: ErrorCode) -> None:
        newest = self._controller[1]
        if claim.controller_epoch < newest:
            what = "control request of a stale controller refused controller=%d epoch=%d newest=%d"
            log.warning(what, *claim[:2], newest)
        else:
            what = (
                "control request refused controller=%d controller_epoch=%d broker_epoch=%d error=%s"
            )
            log.warning(what, *claim, code.name)

    def _known(self, claim: _ClaimedController) -> ErrorCode | None:
        """Judge a claim by what is known; None when the registry has to be asked."""
        if self._context.has_own_registry:
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        own = max(self._context.broker_epoch, self._broker_epoch)
        if claim.broker_epoch < own:
            return ErrorCode.STALE_BROKER_EPOCH
        controller_id, epoch = self._controller
        if claim.controller_epoch < epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if claim == (controller_id, epoch, own):
            return ErrorCode.NONE
        is_another = claim.controller_epoch == epoch and claim.controller_id != controller_id
        return ErrorCode.STALE_CONTROLLER_EPOCH if is_another else None

    # -- the registry

    async def _read_until_decided(self) -> None:
        try:
            while self._waiting:
                asked = len(self._waiting)
                await self._read()
                if any(not judged.done() for _claim, judged in self._waiting[:asked]):
                    await sync(self._context.registry)
                    await self._read()
                for claim, judged in self._waiting[:asked]:
                    if not judged.done():
                        judged.set_result(self._unconfirmed(claim))
                self._waiting = [each for each in self._waiting if not each[1].done()]
        except (ConnectionError, RegistryRefused, ValueError) as error:
            waiting, self._waiting = self._waiting, []
            for _claim, judged in waiting:
                if not judged.done():
                    judged.set_exception(ConnectionError(f"controller not confirmed: {error}"))
        finally:
            self._reading = None

    async def _read(self) -> None:
        """Read the controller and this broker's registration, and decide the waiting requests in their order."""
        registry = self._context.registry
        own = await registry.stat(f"{znodes.BROKER_IDS}/{self._context.broker_id}")
        if own is not None:
            self._broker_epoch = own.czxid
        try:
            epoch, before = await registry.get(znodes.CONTROLLER_EPOCH)
            controller, _stat = await registry.get(znodes.CONTROLLER)
            _epoch, after = await registry.get(znodes.CONTROLLER_EPOCH)
        except RegistryRefused as refused:
            if refused.error is not ZnodeError.NO_NODE:
                raise
        else:
            if before.version == after.version:  # else there was an election between the reads
                self._controller = (znodes.decode_controller(controller), int(epoch))
        for claim, judged in self._waiting:
            code = self._known(claim)
            if code is not None and not judged.done():
                judged.set_result(code)

    def _unconfirmed(self, claim: _ClaimedController) -> ErrorCode:
        is_controller = claim[:2] == self._controller
        return ErrorCode.STALE_BROKER_EPOCH if is_controller else ErrorCode.STALE_CONTROLLER_EPOCH

    async def stop(self) -> None:
        """Ask the registry no more."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
