"""Producer, consumer and admin client for programs without asyncio.

The same methods as in `kavka.client`, without `await`. Every client has a thread with a loop of its own; its
methods may be called from any thread. An exception is raised in the calling thread as the asynchronous method
raises it. While one thread closes a client, calls of others end: with RuntimeError, or with what became of their
records. Names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kavka.client.blocking.client import Admin
    from kavka.client.blocking.consumer import Consumer
    from kavka.client.blocking.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]

_HOMES = {"Admin": "client", "Consumer": "consumer", "Producer": "producer"}


if not TYPE_CHECKING:  # else a type checker would take every name

    def __getattr__(name: str) -> Any:
        """Import a public name from the module that has it."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
