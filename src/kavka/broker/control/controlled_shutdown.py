"""Controlled shutdown: before it stops, a broker has the controller move away what it leads."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from kavka.broker.context import BrokerContext
from kavka.broker.control.controller import Controller
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

log = logging.getLogger(__name__)


async def request_controlled_shutdown(context: BrokerContext, controller: Controller) -> bool:
    """Ask until no leadership is left that others could take, a few times; return whether that is so."""
    config = context.config
    retries = config.integer("controlled.shutdown.max.retries")
    backoff_s = config.integer("controlled.shutdown.retry.backoff.ms") / 1000
    for attempt in range(retries):
        if controller.refusal is not None:
            log.warning("controlled shutdown left out reason=%s", controller.refusal)
            return False
        controller_id = context.metadata.controller_id
        if await _send_request(context, controller):
            return True
        if attempt < retries - 1:
            await _pause(context, controller, controller_id, backoff_s)
        if _is_last_broker(context, controller):
            log.info("no other broker is left to take over broker=%d", context.broker_id)
            return False
    log.warning("controlled shutdown failed broker=%d tries=%d", context.broker_id, retries)
    return False


def _is_last_broker(context: BrokerContext, controller: Controller) -> bool:
    """Return whether no other broker is alive: only the controller knows registered brokers that refuse connections."""
    own = context.broker_id
    if controller.is_active:
        return all(other == own for other in controller.state.reachable)
    return context.metadata.brokers.keys() <= {own}


async def _pause(
    context: BrokerContext, controller: Controller, controller_id: BrokerId, seconds: float
) -> None:
    """Wait, at most while the controller that was asked is active and other brokers are alive."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while context.metadata.controller_id == controller_id and not _is_last_broker(
                context, controller
            ):
                await context.metadata.next_change()


async def _send_request(context: BrokerContext, controller: Controller) -> bool:
    request = ControlledShutdownRequest(
        broker_id=context.broker_id, broker_epoch=context.broker_epoch
    )
    timeout_ms = context.config.integer("controller.socket.timeout.ms")
    try:
        response: ControlledShutdownResponse = await controller.send(request, timeout_ms)
    except (OSError, KafkaError, CorruptFrame) as error:
        log.info("controlled shutdown not answered reason=%s", error)
        return False
    remaining = len(response.remaining_partitions)
    if response.error_code == ErrorCode.NONE and not remaining:
        log.info("leaderships moved broker=%d", context.broker_id)
        return True
    code = ErrorCode.of(response.error_code)
    log.info("leaderships not moved error=%s remaining=%d", code.name, remaining)
    return False
