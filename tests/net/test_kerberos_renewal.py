"""Tickets from a key tab are got again before they end, as long as anything needs them."""

from __future__ import annotations

import asyncio
import gc
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import ref

import pytest

from kavka.core.sasl.exchange import SaslError
from kavka.net.kerberos.renewal import Renewals, RenewalTimes
from support.waiting import until


class Tickets:
    """Tickets that a test's KDC gives; each renewal takes the next life from a list, or fails."""

    def __init__(self, *lives: int | Exception) -> None:
        self.valid_ms = 10_000
        self.lives = list(lives)

    def renew(self) -> None:
        life = self.lives.pop(0) if self.lives else self.valid_ms
        if isinstance(life, Exception):
            raise life
        self.valid_ms = life


class Connection:
    is_closed = False


class Chance:
    def random(self) -> float:
        return 0.5

    def random_bytes(self, length: int) -> bytes:
        return bytes(length)


class Timers:
    """The loop's timers of a second or more, which are due at once: their delays."""

    def __init__(self, loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.delays: list[float] = []
        self._call_later = loop.call_later
        monkeypatch.setattr(loop, "call_later", self._timer)

    def _timer(self, delay: float, call: Any, *args: Any) -> Any:
        if delay < 1:
            return self._call_later(delay, call, *args)
        self.delays.append(round(delay, 1))
        return self._call_later(0, call, *args)


def test_the_moment_is_that_of_kafkas_settings() -> None:
    times = RenewalTimes(min_before_relogin_ms=0)
    assert times.delay_ms(100_000, 0.0) == 80_000
    assert times.delay_ms(100_000, 0.5) == 82_500
    assert RenewalTimes().delay_ms(10_000, 0.0) == 60_000
    assert RenewalTimes(2.0, 0.05, 0).delay_ms(100_000, 0.0) == 100_000
    assert RenewalTimes(-1.0, 0.05, -5).delay_ms(100_000, 0.0) == 1000


def test_each_renewal_is_by_the_life_of_the_tickets_before(monkeypatch: pytest.MonkeyPatch) -> None:
    tickets = Tickets(20_000, 40_000, 4000)

    async def story(thread: ThreadPoolExecutor) -> None:
        timers = Timers(asyncio.get_running_loop(), monkeypatch)
        connection = Connection()
        renewals = Renewals(tickets, thread, RenewalTimes(0.5, 0.0, 0), Chance())
        for _ in range(3):
            renewals.begin(connection)
        await until(lambda: len(timers.delays) >= 3)
        assert timers.delays[:3] == [5.0, 10.0, 20.0]

    with ThreadPoolExecutor(1) as thread:
        asyncio.run(story(thread))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (SaslError("no key of carol"), "no key of carol"),
        (ConnectionError("Cannot contact any KDC"), "Cannot contact any KDC"),
        (4000, "the KDC gave no new ones"),
    ],
)
def test_what_is_not_renewed_is_one_warning_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: Exception | int,
    reason: str,
) -> None:
    tickets = Tickets(fault, fault, 10_000)

    async def story(thread: ThreadPoolExecutor) -> None:
        timers = Timers(asyncio.get_running_loop(), monkeypatch)
        connection = Connection()
        renewals = Renewals(tickets, thread, RenewalTimes(0.8, 0.0, 0), Chance())
        renewals.begin(connection)
        await until(lambda: len(timers.delays) >= 4)
        assert timers.delays[:4] == [8.0, 31.0, 31.0, 8.0]

    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(1) as thread:
        asyncio.run(story(thread))
    (line,) = [m for m in caplog.messages if "tickets not renewed" in m][:1]
    assert line.endswith(f"reason={reason}")
    assert len([m for m in caplog.messages if "tickets not renewed" in m]) == 1


def test_a_login_that_is_gone_renews_nothing() -> None:
    tickets = Tickets(20_000)

    async def story(thread: ThreadPoolExecutor) -> None:
        connection = Connection()
        renewals = Renewals(tickets, thread, RenewalTimes(0.5, 0.0, 0), Chance())
        renewals.begin(connection)
        kept = ref(renewals)
        del renewals
        gc.collect()
        assert kept() is None  # the timer does not hold it
        assert tickets.lives == [20_000]

    with ThreadPoolExecutor(1) as thread:
        asyncio.run(story(thread))


def test_without_a_connection_nothing_is_renewed_until_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tickets = Tickets(20_000, 20_000)

    async def story(thread: ThreadPoolExecutor) -> None:
        timers = Timers(asyncio.get_running_loop(), monkeypatch)
        renewals = Renewals(tickets, thread, RenewalTimes(0.5, 0.0, 0), Chance())
        closed = Connection()
        closed.is_closed = True
        renewals.begin(closed)
        for _ in range(10):
            await asyncio.sleep(0)
        assert (timers.delays, len(tickets.lives)) == ([5.0], 2)
        opened = Connection()
        renewals.begin(opened)
        await until(lambda: not tickets.lives)
        opened.is_closed = True

    with ThreadPoolExecutor(1) as thread:
        asyncio.run(story(thread))
