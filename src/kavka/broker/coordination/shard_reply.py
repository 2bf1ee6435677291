"""The reply of a coordinator's shard to one request, and the response that waits for it.

Where nothing has to be waited for, as with one replica, a shard replies before `ask` returns: its request is answered
in the same iteration of the loop, without a task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kavka.broker.requests.deferred import DeferredResponse


class ShardReply:
    """The reply to one request, which may still be to come. It has as much of a future as a shard needs."""

    __slots__ = ("_is_done", "_notify", "value")

    def __init__(self) -> None:
        """Begin without the reply."""
        self.value: Any = None
        """The reply, once it is there; an ErrorCode when the shard itself cannot answer."""
        self._is_done = False
        self._notify: Callable[[], None] | None = None

    def done(self) -> bool:
        """Return whether the reply is there."""
        return self._is_done

    def set_result(self, value: Any) -> None:
        """Take the reply."""
        assert not self._is_done, "one reply to each request"
        self.value = value
        self._is_done = True
        if self._notify is not None:
            self._notify()

    def call_when_done(self, notify: Callable[[], None]) -> None:
        """Call `notify` when the reply comes, in the midst of what the shard does; it must not raise or ask again."""
        assert not self._is_done, "the reply is there already"
        self._notify = notify


class DelayedReply(DeferredResponse):
    """The response to a request whose shard has not replied yet."""

    __slots__ = ("_build", "_reply")

    def __init__(self, reply: ShardReply, build: Callable[[Any], Any]) -> None:
        """Begin to wait; `build` makes the response of the reply."""
        super().__init__()
        self._reply = reply
        self._build = build
        reply.call_when_done(self.wake)

    def build(self) -> Any:
        """Return the response."""
        return self._build(self._reply.value)

    def release(self) -> None:
        """Ignore the reply, which is not sent then."""


def respond_when_done(reply: ShardReply, build: Callable[[Any], Any]) -> Any:
    """Return what `build` makes of a reply, or what waits for it."""
    return build(reply.value) if reply.done() else DelayedReply(reply, build)
