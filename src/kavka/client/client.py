"""Common base of producer, consumer and admin client: validated settings, I/O, and one way to open."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from kavka.client.cluster import Cluster
from kavka.client.config import Config
from kavka.client.metrics.names import Metrics
from kavka.client.metrics.network import AdminMeter, ClientMeter
from kavka.client.metrics.reporters import attach_all, detach_all, reporters_of, window_of
from kavka.client.metrics.sensors import Window
from kavka.client.pending_calls import PendingCalls
from kavka.client.security import peer_security
from kavka.client.setting_names import check_names
from kavka.errors import AuthenticationFailed
from kavka.io import Clock, Network, Random
from kavka.net.clock import SystemClock, SystemRandom
from kavka.net.network import TcpNetwork
from kavka.settings.declaration import Catalogue

log = logging.getLogger(__name__)

MAKE_IT_IN_THE_CHILD = (
    "Make the client in the child: for example in gunicorn's post_fork hook, or in the initializer of a "
    "multiprocessing pool."
)

_is_warned = False


def _warn_once_of_slow_kernel() -> None:
    """Warn the author of a program, once in a process, that the compiled kernel is missing."""
    global _is_warned
    from kavka.wire.records import kernel

    if kernel.SLOW_BECAUSE and not _is_warned:
        _is_warned = True
        log.warning("compiled kernel not found reason=%s", kernel.SLOW_BECAUSE)


_open_clients: WeakSet[Client] = WeakSet()


class Client(ABC):
    """Settings and I/O from the constructor on, a cluster from `start` to `close`."""

    _catalogue: Catalogue
    _creates_topics = False
    """True if a metadata request may create a topic."""
    _connection_timeout = "default.api.timeout.ms"
    """Setting that bounds how long `start` tries to connect."""
    _handles_records = True
    """True if it encodes or decodes records, for which the compiled kernel exists."""
    _cluster: Cluster
    logs_lost_records = True
    """True if a client that was not closed logs the records that it has lost, False if its owner does."""

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Check the settings (ValueError names the wrong one); nothing is opened before `start`.

        A mistyped name is refused, too; one without effect is warned of (`setting_names`).
        """
        check_names(self._catalogue, config)
        self._config = Config(self._catalogue, config)
        self._network = network or TcpNetwork()
        self._clock = clock or SystemClock()
        self._random = random or SystemRandom()
        self._security = peer_security(self._config, self._clock, self._random)
        self._reporters = reporters_of(self._config)
        self._meter = self._make_meter(
            self._config.text("client.id"), self._clock, window_of(self._config)
        )
        self._is_open = False
        self._is_starting = False
        self._calls = PendingCalls(type(self).__name__.lower())
        self._is_inherited = False  # of a forked child: the parent continues using the connections

    if not TYPE_CHECKING:  # type checkers find `with` by themselves

        def __enter__(self) -> None:
            """Refuse `with`, by its name."""
            name = type(self).__name__
            raise TypeError(
                f"{name} is an asyncio client: use `async with {name}(...)`, or kavka.client.blocking.{name}"
            )

        def __exit__(self, *error: object) -> None:
            """Do nothing: `__enter__` has refused."""

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close."""
        await self.close()

    async def start(self) -> None:
        """Connect to the cluster. While none of `bootstrap.servers` answers, try again, with one warning, and back-off.

        Raise ConnectionError after `max.block.ms` (a producer) or `default.api.timeout.ms`; at once where the name of
        a server does not exist, or where it is no Kafka broker. Raise AuthenticationFailed, at once, where a broker
        refuses the credential. Raise RuntimeError where the client is open, or another task starts it.
        """
        if self._is_open:
            self._require_loop()
        if self._is_open or self._is_starting:
            raise RuntimeError(f"the {type(self).__name__.lower()} was started already")
        self._is_starting = True
        try:
            await self._start()
        except (ConnectionError, AuthenticationFailed) as error:
            # The sentence has it all; frames of the client and of asyncio would only hide it.
            raise error.with_traceback(None) from None
        finally:
            self._is_starting = False

    async def _start(self) -> None:
        self._cluster = Cluster(
            self._config,
            network=self._network,
            clock=self._clock,
            random=self._random,
            allow_auto_create=self._creates_topics,
            security=self._security,
            meter=self._meter,
        )
        self._calls = PendingCalls(type(self).__name__.lower())
        self._build()
        await self._cluster.start(self._config.integer(self._connection_timeout))
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        _open_clients.add(self)
        attach_all(self._reporters, self._meter)
        if self._handles_records:
            _warn_once_of_slow_kernel()

    @abstractmethod
    def _build(self) -> None:
        """Make what works on the cluster; it is not connected yet."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""

    def _unsent_records(self) -> int:
        """Return how many records closing would send or give up."""
        return 0

    def _loss_when_unclosed(self) -> str:
        """Return what is lost when the client is not closed, for the warning; empty when nothing is."""
        count = self._unsent_records()
        return f"{count} records unsent" if count else ""

    def _make_meter(self, client_id: str, clock: Clock, window: Window) -> ClientMeter:
        """Return what counts."""
        return AdminMeter(client_id, clock, window)

    def metrics(self) -> Metrics:
        """Return the metrics of this client, in the names of Kafka's Java clients, as they are now.

        Any thread may call it, also once the client is closed. Rates, averages and maxima are those of the last
        `metrics.num.samples` times `metrics.sample.window.ms`; NaN where there was nothing.
        """
        return self._meter.metrics()

    def _stop_reporting(self) -> None:
        detach_all(self._reporters, self._meter)

    def abandon(self) -> None:
        """Close without requests to brokers, and without a warning: what the client belonged to is over."""
        self._is_open = False
        self._stop_reporting()

    def _leave_to_parent(self) -> None:
        """Make this client unusable: the process is a forked child, and must not touch the parent's connections."""
        self.abandon()
        self._is_inherited = True

    def _require_open(self) -> None:
        if self._is_open:
            return
        name = type(self).__name__.lower()
        if self._is_inherited:
            raise RuntimeError(
                f"the {name} was made before this process was forked, and its connections stayed with the parent. "
                f"{MAKE_IT_IN_THE_CHILD}"
            )
        raise RuntimeError(f"the {name} is not open")

    def _require_loop(self) -> None:
        """Raise RuntimeError where the client is not open, and in another event loop than that of `start`."""
        self._require_open()
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                f"the {type(self).__name__.lower()} was started in another event loop: use it there, or make one in "
                "this loop (a client does not outlive its asyncio.run)"
            )

    def __del__(self) -> None:
        """Warn of a client that was not closed."""
        if getattr(self, "_is_open", False):
            count, loss = self._unsent_records(), self._loss_when_unclosed()
            warnings.warn(
                f"unclosed {type(self).__name__.lower()}{loss and f', {loss}'}",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
            # Python does not show that warning by default, and lost records must be seen.
            if count and self.logs_lost_records:
                log.warning("records lost by a producer that was not closed records=%d", count)


def _leave_all_to_parent() -> None:
    for client in list(_open_clients):
        client._leave_to_parent()
    _open_clients.clear()


def _log_lost_records() -> None:
    """Log the records that the end of the process loses: no loop runs any more that would send them."""
    for client in list(_open_clients):
        count = client._unsent_records() if client._is_open else 0
        if count and client.logs_lost_records:
            client.logs_lost_records = False
            log.warning("producer not closed before the process ended records=%d", count)


os.register_at_fork(after_in_child=_leave_all_to_parent)
atexit.register(_log_lost_records)
