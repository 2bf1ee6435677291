"""The way to the controller, as replication uses it.

`Controller` knows the active controller, and keeps the connection to it: a call when it is this broker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kavka.broker.control.controller import Controller


class NodeToControllerChannel:
    """Sends requests to the active controller."""

    def __init__(self, controller: Controller) -> None:
        """Connect at the first request."""
        self._controller = controller
        self.local: Callable[[Any], Awaitable[Any]] | None = None
        """Answers in place of the controller, if set."""

    async def send(self, request: Any, timeout_ms: int) -> Any:
        """Ask the controller. Raise OSError when it cannot be reached in that time."""
        if self.local is not None:
            return await self.local(request)
        return await self._controller.send(request, timeout_ms)
