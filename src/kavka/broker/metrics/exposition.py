"""The page on a port of its own: `GET /metrics` over HTTP/1.1, nothing else.

It shows the names of topics and clients. So it listens on loopback unless `kavka.metrics.host` says otherwise, and asks
for a certificate (`kavka.metrics.security.protocol`) or a password (`kavka.metrics.users.file`) where settings say so.
"""

from __future__ import annotations

import asyncio
import logging

from kavka.broker.metrics import connections, coordinators, replica_fetchers
from kavka.broker.metrics.basic_authentication import SETTING, BasicAuthentication
from kavka.broker.metrics.page import page
from kavka.broker.metrics.samples import Samples
from kavka.broker.metrics.scrape import Scrape
from kavka.broker.metrics.sources import MetricsSources
from kavka.io import Listener, ServerTls
from kavka.metrics.process import loop_cpu_seconds
from kavka.metrics.rates import Rates
from kavka.metrics.timings import Timings
from kavka.net.transport import least_missed
from kavka.registry.zookeeper import ZooKeeperRegistry
from kavka.storage.directory.log_directory import LogDirectory

log = logging.getLogger(__name__)

_MAX_CONNECTIONS = 16
_WINDOW_MS = 10_000
_WINDOWS_OF_TIMINGS = 6


class Exposition:
    """Serves the page from `start` to `stop`."""

    def __init__(self, sources: MetricsSources) -> None:
        """Serve nothing yet."""
        self._sources = sources
        self._refused = 0
        """Connections of this window that were too many: the first is logged, of the others their number."""
        self._listener: Listener | None = None
        self._scrapes: dict[Scrape, None] = {}
        environment = sources.context.environment
        users = sources.context.config.optional(SETTING)
        self._authentication = (
            BasicAuthentication(users, environment.disk, environment.clock, environment.random)
            if users
            else None
        )
        self._writing: asyncio.Task[bytes] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._windows = 0
        self._idle = 1.0
        self._cpu_s = loop_cpu_seconds()
        self._checked_ms = sources.context.clock.tick_ms()
        self._rates = Rates(self._checked_ms)
        self._samples = Samples()
        self._sampling: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, tls: ServerTls | None = None) -> None:
        """Listen on the port. Raise OSError when the address is taken, InvalidSetting when users cannot be read."""
        if self._authentication is not None:
            await self._authentication.start()
        _warn(host, has_tls=tls is not None, has_users=self._authentication is not None)
        self._listener = await self._sources.context.environment.network.listen(
            host, port, self._accept, tls
        )
        await self._samples.read_space(self._directories)
        self._set_timer()
        scheme = "http" if tls is None else "https"
        log.info("metrics served url=%s://%s:%d/metrics", scheme, host, self.port)

    @property
    def port(self) -> int:
        """Return the port, also when 0 was configured."""
        assert self._listener is not None
        return self._listener.port

    async def stop(self) -> None:
        """Close everything."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._listener is not None:
            self._listener.close()
        for scrape in list(self._scrapes):
            scrape.abort()
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.gather(self._sampling, return_exceptions=True)

    async def page(self) -> bytes:
        """Return the page; requests while it is written get the same one."""
        if self._writing is None or self._writing.done():
            loop = asyncio.get_running_loop()
            self._writing = loop.create_task(
                page(self._sources, self._idle, self._rates, self._samples)
            )
        return await asyncio.shield(self._writing)

    # -- connections

    def _accept(self) -> Scrape:
        return Scrape(self.page, self._opened, self._closed, self._authentication)

    def _opened(self, scrape: Scrape) -> bool:
        if len(self._scrapes) >= _MAX_CONNECTIONS:
            if not self._refused:
                log.warning("metrics connection refused reason=too many")
            self._refused += 1
            waiting = [each for each in self._scrapes if each.is_waiting]
            if not waiting:
                return False
            gone = least_missed(waiting)
            gone.abort()
            self._closed(gone)
        self._scrapes[scrape] = None
        return True

    def _closed(self, scrape: Scrape) -> None:
        self._scrapes.pop(scrape, None)

    # -- time

    def _set_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_WINDOW_MS / 1000, self._window_over)

    def _window_over(self) -> None:
        """See how busy the loop was, close connections that said nothing, and let timings grow old."""
        cpu_s, now_ms = loop_cpu_seconds(), self._sources.context.clock.tick_ms()
        took_ms = max(1, now_ms - self._checked_ms)
        self._idle = min(1.0, max(0.0, 1 - (cpu_s - self._cpu_s) * 1000 / took_ms))
        self._cpu_s, self._checked_ms = cpu_s, now_ms
        for scrape in list(self._scrapes):
            scrape.window_over()
        if self._refused > 1:
            log.warning("metrics connections refused unlogged=%d", self._refused - 1)
        self._refused = 0
        totals = connections.totals(self._sources) | replica_fetchers.totals(self._sources)
        self._rates.turn(now_ms, totals | coordinators.totals(self._sources))
        self._sample(now_ms)
        self._windows += 1
        if self._windows % _WINDOWS_OF_TIMINGS == 0:
            for timings in self._timings():
                timings.rotate()
            self._sources.iterations.rotate()
        self._set_timer()

    @property
    def _directories(self) -> list[LogDirectory]:
        return self._sources.replica_manager.store.directories

    def _sample(self, now_ms: int) -> None:
        self._samples.transactions.turn(
            now_ms,
            (
                (replica.topic_partition, replica.log.producers.open_transactions)
                for replica in self._sources.replica_manager
            ),
        )
        # A disk that does not answer is not asked again meanwhile.
        if self._sampling is None or self._sampling.done():
            reading = self._samples.read_space(self._directories)
            self._sampling = asyncio.get_running_loop().create_task(reading)

    def _timings(self) -> list[Timings]:
        sources = self._sources
        found = [directory.flushes for directory in sources.replica_manager.store.directories]
        found += sources.controller.counts.events.values()
        found.append(sources.controller.counts.queued)
        registry = sources.context.registry
        if isinstance(registry, ZooKeeperRegistry):
            found.append(registry.latencies)
        for traffic in sources.dispatcher.traffic().values():
            found += traffic.timings()
        return found


def _warn(host: str, *, has_tls: bool, has_users: bool) -> None:
    """Warn of an address of the network where anybody may read the page, or the passwords of those who may."""
    if _is_loopback(host):
        return
    if has_users and not has_tls:
        log.warning("metrics passwords are readable on the network host=%s", host)
    elif not has_tls:
        log.warning("metrics are readable by everyone on the network host=%s", host)


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
