"""Tickets from a key tab, got again before they end: Kafka's `sasl.kerberos.ticket.renew.*`.

    |------------- life of the tickets -------------|
    got                               |- jitter -|  end
                                      window.factor of the life: they are got again here, at a moment by chance

A connection finds tickets then, also while no KDC answers for a while. Without an open connection by them tickets are
not renewed: the next one gets others. The library gets them again in the second half of their life only, so an earlier
moment is repeated until then. Where they cannot be got, there is another attempt each half minute, as often as the
library asks a KDC.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor
from typing import Final, Protocol
from weakref import WeakSet

from kavka.core.sasl.exchange import SaslError
from kavka.io import Random
from kavka.net.bounded_log import SpacedLog
from kavka.net.renewal import call_later_weakly, renewal_share
from kavka.values import frozen

log = logging.getLogger(__name__)

_RETRY_MS: Final = 31_000
_LEAST_MS: Final = 1000
_BETWEEN_WARNINGS_MS: Final = 600_000


@frozen
class RenewalTimes:
    """Kafka's settings, with its defaults."""

    window_factor: float = 0.8
    """`sasl.kerberos.ticket.renew.window.factor`: the share of the life after which tickets are got again."""
    jitter: float = 0.05
    """`sasl.kerberos.ticket.renew.jitter`: how much of the life is added to it at most, by chance."""
    min_before_relogin_ms: int = 60_000
    """`sasl.kerberos.min.time.before.relogin`."""

    def delay_ms(self, valid_ms: int, chance: float) -> int:
        """Return after how long tickets that are valid for `valid_ms` more are got again; `chance` is below 1.

        With tickets so short that this is behind their end, the next connection gets others.
        """
        share = renewal_share(self.window_factor, self.jitter, chance)
        return max(int(valid_ms * share), self.min_before_relogin_ms, _LEAST_MS)


class Tickets(Protocol):
    """The tickets of one identity."""

    @property
    def valid_ms(self) -> int:
        """Return for how long they were valid when they were looked at last."""
        ...

    def renew(self) -> None:
        """Get them again. Blocks. Raise SaslError, ConnectionError."""
        ...


class Connection(Protocol):
    """A connection that was authenticated by the tickets."""

    @property
    def is_closed(self) -> bool:
        """Return whether it is closed."""
        ...


class Renewals:
    """Gets tickets again, as long as there are connections by them."""

    def __init__(
        self, tickets: Tickets, thread: Executor, times: RenewalTimes, random: Random
    ) -> None:
        """Wait for the first tickets."""
        self._tickets = tickets
        self._thread = thread
        self._times = times
        self._random = random
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: WeakSet[Connection] = WeakSet()
        self._life_ms = 0  # of the tickets when they were got, as far as it is known
        self._renewing: asyncio.Task[None] | None = None
        self._log: SpacedLog | None = None

    def begin(self, connection: Connection) -> None:
        """Get the tickets again from now on: a connection was authenticated by them."""
        self._connections.add(connection)
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._log = SpacedLog(log, _BETWEEN_WARNINGS_MS)
            self._life_ms = self._tickets.valid_ms
            self._set_timer(self._delay_ms())

    def _delay_ms(self) -> int:
        return self._times.delay_ms(self._tickets.valid_ms, self._random.random())

    def _set_timer(self, delay_ms: int) -> None:
        assert self._loop is not None
        call_later_weakly(self._loop, delay_ms, self.renew)

    def renew(self) -> None:
        """Get them now, on the thread, if there is a connection by them."""
        if all(connection.is_closed for connection in self._connections):
            self._loop = None
            return
        self._renewing = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        loop, before_ms = asyncio.get_running_loop(), self._tickets.valid_ms
        try:
            await loop.run_in_executor(self._thread, self._tickets.renew)
        except (SaslError, ConnectionError) as error:
            self._warn(str(error))
            self._set_timer(_RETRY_MS)
            return
        except RuntimeError:
            return  # the thread has ended with the process
        valid_ms = self._tickets.valid_ms
        if valid_ms <= before_ms and valid_ms < self._life_ms / 2:
            self._warn("the KDC gave no new ones")
            self._set_timer(_RETRY_MS)
        else:
            self._life_ms = max(self._life_ms, valid_ms) if valid_ms <= before_ms else valid_ms
            self._set_timer(self._delay_ms())

    def _warn(self, reason: str) -> None:
        assert self._log is not None
        if self._log.is_due():
            what = "Kerberos tickets not renewed, valid_s=%d reason=%s"
            self._log.write(what, self._tickets.valid_ms // 1000, reason)
