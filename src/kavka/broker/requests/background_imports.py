"""Deferred imports: modules that a start leaves out are imported while the broker is idle.

A start imports what every broker needs. Handlers and the parts behind them are imported when they are first asked for,
and a broker under load would stand still for that, some milliseconds each time. So they are imported one after the
other, each in a moment before which no request came for a while.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable

from kavka.broker.requests.idle_periods import collect_and_spare, wait_until_idle
from kavka.broker.requests.served_apis import SUPPORTED_APIS, handler_module

_FIRST_PAUSE_S = 1.0
"""After the start: the first client is on its way."""


def deferred_modules() -> list[str]:
    """Return the modules that a start leaves out, smallest first: each finds imported what it is built on."""
    built_on = (
        "kavka.core.group.events",
        "kavka.core.group.shard",
        "kavka.broker.coordination.group_coordinators",
        "kavka.core.transaction.events",
        "kavka.core.transaction.shard",
        "kavka.core.transaction_markers.machine",
        "kavka.broker.coordination.transaction_coordinators",
        "kavka.broker.coordination.marker_appends",
        "kavka.broker.control.producer_ids",
        "kavka.core.verification.machine",
        "kavka.broker.coordination.verification",
    )
    return [*built_on, *map(handler_module, SUPPORTED_APIS)]


async def import_in_background(
    requests_received: Callable[[], int],
    load: Callable[[str], object] = importlib.import_module,
) -> None:
    """Import what is left out, in quiet moments; then collect once what the start left, and spare the rest from it.

    `requests_received` counts requests, `load` is called with each name.
    """
    await asyncio.sleep(_FIRST_PAUSE_S)
    for name in deferred_modules():
        await wait_until_idle(requests_received)
        load(name)
    await wait_until_idle(requests_received)
    collect_and_spare()
