"""The common base of the blocking clients, and the admin client, which is forwarded as it is."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from kavka.client.admin import Admin as AsyncAdmin
from kavka.client.blocking.loop_thread import LoopThread
from kavka.client.pending_calls import is_coroutine_function
from kavka.io import Clock, Network, Random

if TYPE_CHECKING:
    from kavka.client.blocking.signatures import AdminMethods
else:
    AdminMethods = object  # the methods that `forward` adds

T = TypeVar("T")

LIFECYCLE_METHODS = frozenset({"start", "close", "abandon"})


class BlockingClient:
    """Base of the three: an asynchronous client in a thread. Methods are forwarded by name."""

    _client_class: ClassVar[type[Any]]

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Check the settings and connect. Raise as the asynchronous client's constructor and `start`."""
        self._async: Any = self._client_class(config, network=network, clock=clock, random=random)
        self._async.logs_lost_records = False
        self._thread: LoopThread | None = LoopThread(self._client_class.__name__.lower())
        self._closing = threading.Lock()
        self._closer = 0  # ident of the thread that closes
        self._closed = threading.Event()
        try:
            self._thread.run(self._async.start)
        except ConnectionError as error:
            self._thread.stop()
            raise error.with_traceback(None) from None
        except BaseException:
            self._thread.stop()
            raise

    def __enter__(self) -> Self:
        """Return itself; it is connected already. Raise RuntimeError where it was closed."""
        self._require_thread()
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close the client, and end its thread; calling it twice is allowed."""
        self._close_once({})

    def _close_once(self, options: dict[str, Any]) -> None:
        """Close as the asynchronous client, and end the thread.

        Calls of other threads that wait end with RuntimeError, and no other begins. In a forked child it forgets the
        client and leaves the parent's alone. While another thread closes the client, wait for that, for the option
        `timeout_ms` at most; except in a delivery callback, for which that thread waits.
        """
        thread = self._thread
        if thread is None:
            return
        if thread.is_forked:
            self._thread = None
            return
        if not self._closing.acquire(blocking=False):
            if threading.get_ident() != self._closer and not thread.callbacks.is_current():
                timeout_ms = options.get("timeout_ms")
                self._closed.wait(None if timeout_ms is None else timeout_ms / 1000)
            return
        self._closer = threading.get_ident()
        try:
            self._close(thread, options)
        finally:
            self._thread = None
            thread.stop()
            self._refuse_queued()
            self._closed.set()

    def _close(self, thread: LoopThread, options: dict[str, Any]) -> None:
        thread.run(self._async.close, **options)

    def _refuse_queued(self) -> None:
        """Refuse what was handed over while the loop's thread ended."""

    def _require_thread(self) -> LoopThread:
        thread = self._thread
        if thread is None or (self._closer and not self._is_closing_thread(thread)):
            raise RuntimeError(f"the {self._client_class.__name__.lower()} is closed")
        thread.check()
        return thread

    def _is_closing_thread(self, thread: LoopThread) -> bool:
        """Return whether the caller is part of the close: a listener, or a callback that the close waits for."""
        return threading.get_ident() == self._closer or thread.callbacks.is_current()


def forward(client_class: type[Any], without: frozenset[str]) -> Callable[[type[T]], type[T]]:
    """Return a decorator that adds to a class the public members of `client_class` that it does not define itself.

    `signatures.pyi` declares them; `scripts/blocking_signatures.py` writes it.
    """

    def decorate(cls: type[T]) -> type[T]:
        for name, member in inspect.getmembers(client_class):
            if name.startswith("_") or name in without or name in cls.__dict__:
                continue
            if inspect.isfunction(member):
                setattr(cls, name, _blocking_method(name, member))
            elif isinstance(member, property) and member.fget is not None:
                setattr(cls, name, _blocking_property(name, member.fget))
        return cls

    return decorate


def _blocking_method(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    is_coroutine = is_coroutine_function(method)

    @wraps(method)
    def blocking(self: Any, *args: Any, **kwargs: Any) -> Any:
        thread = self._require_thread()
        bound = getattr(self._async, name)
        if is_coroutine:
            return thread.run(bound, *args, **kwargs)
        return thread.call(bound, *args, **kwargs)

    return blocking


def _blocking_property(name: str, getter: Callable[..., Any]) -> property:
    @wraps(getter)
    def blocking(self: Any) -> Any:
        return self._require_thread().call(getattr, self._async, name)

    return property(blocking)


@forward(AsyncAdmin, LIFECYCLE_METHODS)
class Admin(BlockingClient, AdminMethods):
    """`kavka.client.Admin` for threads."""

    _client_class = AsyncAdmin
