"""Results of handlers, and the one way in which a response comes later.

A handler returns one of these, and so does what comes later:

    a message of the API's response class
    EncodedResponse    the frame of a response; `NO_RESPONSE` for a request that has none (acks=0)
    SecondStage        a coroutine that continues with the request and returns one of these; an `async` handler is one
    DeferredResponse   a response that is built when it is woken
    LastResponse       a response behind which the connection is closed

The path of a Produce with acks=all after its batch was appended, while it waits for replicas:

    api.produce       returns a `DelayedProduce`, a DeferredResponse, which it registered in the produce purgatory
                      under its partitions, with its timeout
    pending_requests  keeps it with its connection and lets go of the request's frame
    a follower        fetches from behind the batch; `core.partition` moves the high watermark, and the replica manager
                      calls `produce_purgatory.check_and_complete(topic_partition)`
    purgatory         asks `is_complete()` of what waits for the partition, and calls `wake()` of what is (or, after
                      the timeout, of what is not)
    pending_requests  after the code that woke it, at the end of its connection's time slice where no other connection
                      is to be served, else in the next iteration of the loop: calls `build()` of each woken one, and
                      gives the results to `requests.responses` as if handlers had returned them; the responses of
                      one connection leave in one send
    net.connection    sends each when all before it have left

A Fetch that waits for bytes goes the same way through the fetch purgatory, a follower's Fetch through its session. If
the connection is closed or the broker stops meanwhile, `cancel()` takes the place of `wake()`. An awaitable instead of
a DeferredResponse would take more iterations: its task runs in the one after it is woken, and its response leaves in
the next.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Final

from kavka.wire.frame import EncodedResponse

if TYPE_CHECKING:
    from kavka.broker.requests.context import RequestContext

NO_RESPONSE: Final = EncodedResponse()
"""The result of a request that is not answered."""


class LastResponse:
    """A response behind which the connection is closed."""

    __slots__ = ("response",)

    def __init__(self, response: Any) -> None:
        """Send this message of the API's response class."""
        self.response = response


class SecondStage:
    """The part of a handler that continues in later iterations of the loop."""

    __slots__ = ("release", "work")

    def __init__(
        self, work: Coroutine[Any, Any, Any], release: Callable[[], None] | None = None
    ) -> None:
        """`release` is called if `work` is cancelled, even before its first step."""
        self.work = work
        self.release = release

    def __await__(self) -> Generator[Any, Any, Any]:
        """Continue with it in another second stage."""
        return self.work.__await__()


class DeferredResponse(ABC):
    """A response that is built after `wake`. Subclasses are the delayed operations of the APIs."""

    __slots__ = ("_is_woken", "_on_wake", "context", "is_done")

    context: RequestContext
    """Set when it begins to wait."""

    def __init__(self) -> None:
        """Begin to wait."""
        self.is_done = False
        """True once it was answered or cancelled."""
        self._is_woken = False
        self._on_wake: Callable[[DeferredResponse], None] | None = None

    @abstractmethod
    def build(self) -> Any:
        """Return the result, or raise; called once at most."""

    @abstractmethod
    def release(self) -> None:
        """Stop waiting for it: the response is no longer needed."""

    def wake(self) -> None:
        """Respond soon, after the code that called this."""
        if not self._is_woken:
            self._is_woken = True
            if self._on_wake is not None:
                self._on_wake(self)

    def cancel(self) -> None:
        """Cancel the response: the connection is gone, or the broker stops."""
        if not self.is_done:
            self.is_done = True
            self._on_wake = None
            self.release()

    def call_on_wake(self, callback: Callable[[DeferredResponse], None]) -> None:
        """Register a callback that is called once: now, if the response was woken already."""
        self._on_wake = callback
        if self._is_woken:
            callback(self)

    def take(self) -> Any:
        """Return the result, or raise what building it raises; once."""
        assert not self.is_done, "a deferred response is built once"
        self.is_done = True
        self._on_wake = None
        return self.build()


def with_result(handle: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler that returns a result: what an `async` one does is a second stage as a whole."""
    if not inspect.iscoroutinefunction(handle):
        return handle

    def begin(context: RequestContext, request: Any) -> SecondStage:
        return SecondStage(handle(context, request))

    return begin
