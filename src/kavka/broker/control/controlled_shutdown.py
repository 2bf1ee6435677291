"""Controlled shutdown: before it stops, a broker has the controller move away what it leads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

if TYPE_CHECKING:
    from kavka.broker.broker import Broker

log = logging.getLogger(__name__)


async def request_controlled_shutdown(broker: Broker) -> bool:
    """Ask until nothing is led here that others could lead, a few times; tell whether that is so."""
    config = broker.config
    retries = config.integer("controlled.shutdown.max.retries")
    backoff_s = config.integer("controlled.shutdown.retry.backoff.ms") / 1000
    for attempt in range(retries):
        controller_id = broker.metadata.controller_id
        if await _send_request(broker):
            return True
        if attempt < retries - 1:
            await _pause(broker, controller_id, backoff_s)
        if _is_last_broker(broker):
            log.info("no other broker is left to take over broker=%d", broker.broker_id)
            return False
    log.warning("controlled shutdown failed broker=%d tries=%d", broker.broker_id, retries)
    return False


def _is_last_broker(broker: Broker) -> bool:
    """Return whether no other broker lives: only the controller knows who is registered and refuses connections."""
    own = broker.broker_id
    if broker.controller.is_active:
        return all(other == own for other in broker.controller.state.reachable)
    return broker.metadata.brokers.keys() <= {own}


async def _pause(broker: Broker, controller_id: BrokerId, seconds: float) -> None:
    """Wait, at most while the controller that was asked is active and other brokers are alive."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while broker.metadata.controller_id == controller_id and not _is_last_broker(broker):
                await broker.metadata.next_change()


async def _send_request(broker: Broker) -> bool:
    request = ControlledShutdownRequest(
        broker_id=broker.broker_id, broker_epoch=broker.control_requests.broker_epoch
    )
    timeout_ms = broker.config.integer("controller.socket.timeout.ms")
    try:
        response: ControlledShutdownResponse = await broker.controller.send(request, timeout_ms)
    except (OSError, KafkaError, CorruptFrame) as error:
        log.info("controlled shutdown not answered reason=%s", error)
        return False
    remaining = len(response.remaining_partitions)
    if response.error_code == ErrorCode.NONE and not remaining:
        log.info("leaderships moved broker=%d", broker.broker_id)
        return True
    code = ErrorCode.of(response.error_code)
    log.info("leaderships not moved error=%s remaining=%d", code.name, remaining)
    return False
