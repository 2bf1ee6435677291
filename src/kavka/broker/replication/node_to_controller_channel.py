"""The way to the controller, as replication uses it.

`broker.controller` knows who rules, and keeps the connection: a call when it is this broker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kavka.broker.broker import Broker


class NodeToControllerChannel:
    """Sends requests to the active controller."""

    def __init__(self, broker: Broker) -> None:
        """Connect at the first request."""
        self._broker = broker
        self.local: Callable[[Any], Awaitable[Any]] | None = None
        """Answers in place of the controller, if set."""

    async def send(self, request: Any, timeout_ms: int) -> Any:
        """Ask the controller. Raise OSError when it cannot be reached in that time."""
        if self.local is not None:
            return await self.local(request)
        return await self._broker.controller.send(request, timeout_ms)
