"""A bearer token is got again before it ends, by one request for all connections, after failures with a back-off."""

from __future__ import annotations

import asyncio
import gc
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from kavka.core.sasl.exchange import SaslError
from kavka.core.sasl.unsecured_jwt import encode_unsecured
from kavka.net.bearer_renewal import RefreshTimes, RenewedToken, TokenUnavailable
from kavka.net.bearer_tokens import BearerToken, TokenEndpoint, endpoint_source
from kavka.net.clock import SystemClock
from kavka.settings.declaration import InvalidSetting
from support.tls import TlsFiles


class TurnedClock(SystemClock):
    ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms


class Chance:
    def random(self) -> float:
        return 0.5

    def random_bytes(self, length: int) -> bytes:
        return bytes(length)


class Issuer:
    """A source: each request takes the next life in milliseconds, or fails; a life of None waits."""

    def __init__(self, clock: TurnedClock, *lives: int | Exception | None) -> None:
        self._clock = clock
        self._lives = list(lives)
        self.requests = 0
        self.answers = asyncio.Event()

    async def __call__(self) -> BearerToken:
        self.requests += 1
        life = self._lives.pop(0)
        if life is None:
            await self.answers.wait()
            life = 600_000
        if isinstance(life, Exception):
            raise life
        return BearerToken(f"t{self.requests}", self._clock.ms + life)


class Timers:
    """The loop's timers, which are due when a test says so."""

    def __init__(self, loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.delays: list[float] = []
        self._due: Callable[[], None] | None = None
        monkeypatch.setattr(loop, "call_later", self._set)

    def _set(self, delay: float, call: Any, *args: Any) -> Any:
        self.delays.append(delay)
        self._due = lambda: call(*args)
        return asyncio.TimerHandle(0, call, args, asyncio.get_running_loop())

    async def elapse(self) -> None:
        """Let the last timer be due, and what it begins end."""
        assert self._due is not None
        self._due()
        for _ in range(3):
            await asyncio.sleep(0)


def renewed(issuer: Issuer, clock: TurnedClock, times: RefreshTimes | None = None) -> RenewedToken:
    return RenewedToken(issuer, times or RefreshTimes(), clock, Chance(), "https://issuer/token")


def test_the_moment_is_that_of_kafkas_settings() -> None:
    assert RefreshTimes().delay_ms(3_600_000, 0.0) == 2_880_000
    assert RefreshTimes().delay_ms(3_600_000, 0.5) == 2_970_000
    assert RefreshTimes().delay_ms(600_000, 0.0) == 300_000  # the buffer
    assert RefreshTimes(0.1).delay_ms(400_000, 0.0) == 60_000  # the minimum period
    assert RefreshTimes().delay_ms(300_000, 0.0) == 240_000  # shorter than both: neither
    assert RefreshTimes().delay_ms(10, 0.0) == 1000
    assert RefreshTimes(7.0).delay_ms(100_000, 0.0) == 100_000


def test_each_failure_doubles_the_wait_up_to_the_longest() -> None:
    waits = [RefreshTimes().backoff(failures) for failures in (1, 2, 3, 7, 8, 9, 10_000)]
    assert waits == [100, 200, 400, 6400, 10_000, 10_000, 10_000]


def test_connections_share_one_request_and_its_cancellation_is_not_the_others() -> None:
    async def story() -> None:
        clock = TurnedClock()
        issuer = Issuer(clock, None)
        token = renewed(issuer, clock)
        first, *others = [asyncio.create_task(token.current()) for _ in range(5)]
        await asyncio.sleep(0)
        first.cancel()
        issuer.answers.set()
        assert [one.text for one in await asyncio.gather(*others)] == ["t1"] * 4
        assert (await token.current()).text == "t1"
        assert issuer.requests == 1

    asyncio.run(story())


def test_a_token_is_replaced_before_its_end_and_the_old_one_serves_while_that_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def story() -> None:
        clock = TurnedClock()
        timers = Timers(asyncio.get_running_loop(), monkeypatch)
        refused = SaslError("the token endpoint answered 503 Service Unavailable")
        issuer = Issuer(clock, 100_000, refused, TimeoutError("timed out"), 100_000)
        token = renewed(issuer, clock)
        assert (await token.current()).text == "t1"
        clock.ms += 82_500
        for _ in range(2):
            await timers.elapse()
            assert (await token.current()).text == "t1"
        await timers.elapse()
        assert (await token.current()).text == "t4"
        assert timers.delays == [82.5, 0.1, 0.2, 82.5]

    asyncio.run(story())
    assert caplog.messages == [
        "bearer token of this broker not got origin=https://issuer/token reason=the token endpoint answered 503 "
        "Service Unavailable old_token_valid_s=17 next_attempt_ms=100",
        "bearer token got again origin=https://issuer/token failures=2",
    ]


def test_connections_fail_at_once_between_attempts_and_the_endpoint_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        clock = TurnedClock()
        timers = Timers(asyncio.get_running_loop(), monkeypatch)
        refused = SaslError("the token endpoint answered 401 Unauthorized")
        issuer = Issuer(clock, refused, -5, 100_000)
        token = renewed(issuer, clock)
        for _ in range(3):
            with pytest.raises(TokenUnavailable, match="401 Unauthorized"):
                await token.current()
        assert issuer.requests == 1
        await timers.elapse()
        with pytest.raises(TokenUnavailable, match="expired already"):
            await token.current()
        await timers.elapse()
        assert (await token.current()).text == "t3"

    asyncio.run(story())


def test_a_token_that_ended_before_its_renewal_was_due_is_replaced_at_the_next_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        clock = TurnedClock()
        Timers(asyncio.get_running_loop(), monkeypatch)
        issuer = Issuer(clock, 100_000, 100_000)
        token = renewed(issuer, clock)
        await token.current()
        clock.ms += 100_000  # the machine slept
        assert (await token.current()).text == "t2"

    asyncio.run(story())


def test_a_login_that_nothing_uses_any_more_gets_no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        clock = TurnedClock()
        timers = Timers(asyncio.get_running_loop(), monkeypatch)
        issuer = Issuer(clock, 100_000, 100_000)
        token = renewed(issuer, clock)
        await token.current()
        gone = ref(token)
        del token
        gc.collect()
        assert gone() is None
        await timers.elapse()
        assert issuer.requests == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (b"nonsense\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\n[", "is not JSON"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 200_000, "is not JSON"),
        (b"HTTP/1.1 200 OK\r\n\r\n[]", "is not a JSON object"),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", "has no access_token"),
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", "answered 401 Unauthorized$"),
        (b'HTTP/1.1 400 No\r\n\r\n{"error": "invalid_scope"}', "answered 400 No: invalid_scope$"),
        (b'HTTP/1.1 400 No\r\n\r\n{"error": "two\\nlines"}', "answered 400 No$"),
        (b"HTTP/1.1 400 No\r\nContent-Length: 9\r\n\r\n[", "answered 400 No$"),
    ],
)
def test_what_an_endpoint_says_wrongly_is_a_refusal(response: bytes, message: str) -> None:
    with pytest.raises(SaslError, match=message):
        asked(response)


@pytest.mark.parametrize(
    "seconds", [b"Infinity", b"NaN", b"true", b'"60"', b"null", b"1e308", b"9" * 400]
)
def test_a_token_whose_life_is_no_number_has_a_short_one(seconds: bytes) -> None:
    body = b'HTTP/1.1 200 OK\r\n\r\n{"access_token": "a", "expires_in": %s}' % seconds
    assert asked(body) == BearerToken("a", 1_060_000)


@pytest.mark.parametrize(
    ("claimed_s", "seconds", "end_ms"),
    [
        (1_030, b"60", 1_030_000),
        (1_090, b"60", 1_060_000),
        (1_090.5, b"null", 1_090_500),
        ("soon", b"30", 1_030_000),
        (True, b"30", 1_030_000),
        (1e300, b"30", 1_030_000),
    ],
)
def test_a_tokens_life_ends_with_its_claim_or_with_what_the_endpoint_says(
    claimed_s: object, seconds: bytes, end_ms: int
) -> None:
    text = encode_unsecured({"sub": "a", "exp": claimed_s})
    body = b'{"access_token": "%s", "expires_in": %s}' % (text.encode(), seconds)
    assert asked(b"HTTP/1.1 200 OK\r\n\r\n" + body) == BearerToken(text, end_ms)


def test_an_endpoint_that_connects_and_says_nothing_is_given_up() -> None:
    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            endpoint = TokenEndpoint(f"http://127.0.0.1:{port}/", "a", "b", None, 60, 0.01)
            try:
                with pytest.raises(TimeoutError):
                    await endpoint_source(endpoint, TurnedClock())()
            finally:
                ended.set()

    ended = asyncio.Event()
    asyncio.run(story())


def test_the_certificate_of_an_https_endpoint_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = TlsFiles(tmp_path)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(files.broker)
    body = b'HTTP/1.1 200 OK\r\n\r\n{"access_token": "a", "expires_in": 1}'
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        asked(body, server)
    monkeypatch.setenv("SSL_CERT_FILE", files.trust)
    assert asked(body, server) == BearerToken("a", 1_001_000)


def asked(response: bytes, tls: ssl.SSLContext | None = None) -> BearerToken:
    """Return the token of an endpoint with this response."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"grant_type=client_credentials")
        writer.write(response)
        writer.close()

    async def story() -> BearerToken:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
        async with server:
            port = server.sockets[0].getsockname()[1]
            scheme = "http" if tls is None else "https"
            url = f"{scheme}://127.0.0.1:{port}/"
            endpoint = TokenEndpoint(url, "a", "topsecret", None, 60, 60)
            assert "topsecret" not in repr(endpoint)
            return await endpoint_source(endpoint, TurnedClock())()

    return asyncio.run(story())


@pytest.mark.parametrize(
    "url", ["ftp://issuer", "https://", "https://issuer:port/", "http://[", ""]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidSetting, match="Expected an http or https URL"):
        endpoint_source(TokenEndpoint(url, "a", "b", None, 1, 1), TurnedClock())
