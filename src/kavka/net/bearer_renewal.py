"""A bearer token that is got again before it ends: Kafka's `sasl.login.refresh.*` and `sasl.login.retry.*`.

    |------------- life of the token --------------------------|
    got                          |- jitter -|      |- buffer --|  end
                                 window.factor of the life: another is got here, at a moment by chance

The first connection waits for the first token, others that come meanwhile for the same one. From then on a timer gets
the next, so connections find one at once, also while the endpoint does not answer for a while. After a failure there
is another attempt, each time after twice as long; until then connections that need a token fail without asking.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from kavka.core.sasl.exchange import SaslError
from kavka.io import Clock, Random
from kavka.net.bearer_tokens import BearerToken, Source
from kavka.net.bounded_log import SpacedLog
from kavka.net.renewal import call_later_weakly, renewal_share
from kavka.values import frozen

log = logging.getLogger(__name__)

_LEAST_MS: Final = 1000
_BETWEEN_WARNINGS_MS: Final = 60_000


class TokenUnavailable(ConnectionError):
    """There is no token for a connection now: the attempts to get one go on."""


@frozen
class RefreshTimes:
    """Kafka's settings, with its defaults."""

    window_factor: float = 0.8
    """`sasl.login.refresh.window.factor`: the share of the life after which another token is got."""
    window_jitter: float = 0.05
    """`sasl.login.refresh.window.jitter`: how much of the life is added to it at most, by chance."""
    min_period_s: int = 60
    """`sasl.login.refresh.min.period.seconds`: the least time from one token to the next."""
    buffer_s: int = 300
    """`sasl.login.refresh.buffer.seconds`: the time before the end that is left to get it."""
    backoff_ms: int = 100
    """`sasl.login.retry.backoff.ms`."""
    max_backoff_ms: int = 10_000
    """`sasl.login.retry.backoff.max.ms`."""

    def delay_ms(self, life_ms: int, chance: float) -> int:
        """Return after how long a token with this life is replaced; `chance` is from 0 up to 1.

        Minimum period and buffer have no effect where the life is shorter than both together.
        """
        delay_ms = int(life_ms * renewal_share(self.window_factor, self.window_jitter, chance))
        least_ms, buffer_ms = self.min_period_s * 1000, self.buffer_s * 1000
        if life_ms >= least_ms + buffer_ms:
            delay_ms = max(least_ms, min(delay_ms, life_ms - buffer_ms))
        return max(delay_ms, _LEAST_MS)

    def backoff(self, failures: int) -> int:
        """Return the milliseconds to wait after so many failures, 1 or more, in a row."""
        # By the thirty-first the largest backoff is reached from any other.
        return max(1, min(self.backoff_ms << min(failures - 1, 31), self.max_backoff_ms))


class RenewedToken:
    """The token of all connections, and its renewal. Belongs to one loop."""

    def __init__(
        self, source: Source, times: RefreshTimes, clock: Clock, random: Random, origin: str
    ) -> None:
        """Get nothing yet. `origin` says in the log what gives tokens."""
        self._source = source
        self._times = times
        self._clock = clock
        self._random = random
        self._origin = origin
        self._token: BearerToken | None = None
        self._fetch: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._failures = 0  # in a row
        self._reason = ""  # of the last failure
        self._log = SpacedLog(log, _BETWEEN_WARNINGS_MS)

    async def current(self) -> BearerToken:
        """Return a token that is valid now. Raise TokenUnavailable."""
        if not self._is_valid():
            if self._failures == 0 or self._is_fetching():
                await asyncio.shield(self._fetching())
            if not self._is_valid():
                raise TokenUnavailable(f"no bearer token from {self._origin}: {self._reason}")
        assert self._token is not None
        return self._token

    def renew(self) -> None:
        """Get another token now, unless that is under way."""
        self._fetching()

    def _is_valid(self) -> bool:
        return self._token is not None and self._clock.now_ms() < self._token.expires_ms

    def _is_fetching(self) -> bool:
        return self._fetch is not None and not self._fetch.done()

    def _fetching(self) -> asyncio.Task[None]:
        if self._fetch is None or self._fetch.done():
            self._fetch = asyncio.get_running_loop().create_task(self._run())
        return self._fetch

    async def _run(self) -> None:
        try:
            token = await self._source()
            life_ms = token.expires_ms - self._clock.now_ms()
            if life_ms <= 0:
                raise SaslError("the token has expired already")
        except (SaslError, OSError) as error:
            self._failures += 1
            self._reason = str(error)
            delay_ms = self._times.backoff(self._failures)
            self._warn(delay_ms)
        else:
            if self._failures:
                log.info(
                    "bearer token got again origin=%s failures=%d", self._origin, self._failures
                )
            self._token, self._failures = token, 0
            delay_ms = self._times.delay_ms(life_ms, self._random.random())
        if self._timer is not None:
            self._timer.cancel()  # of a token that ended before its renewal was due
        self._timer = call_later_weakly(asyncio.get_running_loop(), delay_ms, self.renew)

    def _warn(self, delay_ms: int) -> None:
        if self._log.is_due():
            valid_ms = 0 if self._token is None else self._token.expires_ms - self._clock.now_ms()
            self._log.write(
                "bearer token of this broker not got origin=%s reason=%s old_token_valid_s=%d next_attempt_ms=%d",
                self._origin,
                self._reason,
                max(0, valid_ms) // 1000,
                delay_ms,
            )
