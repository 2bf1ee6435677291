"""Producer, consumer and admin client for programs without asyncio.

The same methods as in `kavka.client`, without `await`. Every client has a thread with a loop of its own; its
methods may be called from any thread. An exception is raised in the calling thread as the asynchronous method
raises it. While one thread closes a client, calls of others end: with RuntimeError, or with what became of their
records.
"""

from __future__ import annotations

from kavka.client.blocking.client import Admin
from kavka.client.blocking.consumer import Consumer
from kavka.client.blocking.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
