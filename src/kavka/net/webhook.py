"""One attempt to give a document to a webhook, and what its outcome means.

Redirects are not followed: a webhook is where its configuration says.

outcome                                             verdict       meaning
2xx                                                 delivered     the endpoint has it
no response, 408, 425, 429, 502, 503, 504           unavailable   try again, without an end: others would not arrive
400, 413, 415, 422                                  refused       give up: the endpoint will never take this one
any other (a redirect, 401, 404, 500, ...)          failed        try again for a time, then give up
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from urllib.parse import SplitResult, urlsplit

from kavka import __version__

MAX_WAIT_S = 60.0
"""The longest pause between two attempts, unless the endpoint asks for a longer one."""
MAX_RETRY_AFTER_S = 600.0
"""The longest pause that an endpoint may ask for."""
_MOST_CHARACTERS = 300
_UNAVAILABLE = (408, 425, 429, 502, 503, 504)
_REFUSED = (400, 413, 415, 422)
_OWN_HEADERS = ("content-length", "host", "transfer-encoding", "idempotency-key")


class InvalidWebhook(ValueError):
    """An address or a header that cannot be used; the sentence does not repeat it, since it may be a secret."""


class Verdict(Enum):
    """The result of an attempt."""

    DELIVERED = "delivered"
    UNAVAILABLE = "unavailable"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The response to an attempt."""

    status: int | None
    """None: there was no response."""
    text: str
    """The reason, for people: in one line, since a part of it is the endpoint's."""
    retry_after_s: float = 0.0
    """The pause that the endpoint asks for."""

    def __post_init__(self) -> None:
        """Keep the beginning of the reason, without control characters: it is shown, logged and kept."""
        text = "".join(c if c.isprintable() else " " for c in self.text[:_MOST_CHARACTERS])
        object.__setattr__(self, "text", text)

    @property
    def verdict(self) -> Verdict:
        """Return what it means."""
        if self.status is None or self.status in _UNAVAILABLE:
            return Verdict.UNAVAILABLE
        if 200 <= self.status < 300:
            return Verdict.DELIVERED
        return Verdict.REFUSED if self.status in _REFUSED else Verdict.FAILED


def wait_s(first_s: float, attempts: int, outcome: Outcome, chance: float) -> float:
    """Return the pause after so many attempts (1 and more); `chance`, from 0 to 1, keeps senders apart."""
    longest = min(first_s * 2.0 ** min(attempts - 1, 30), MAX_WAIT_S)
    return max(longest * (0.5 + chance / 2), min(outcome.retry_after_s, MAX_RETRY_AFTER_S))


def check_url(url: str) -> SplitResult:
    """Return the parts of a webhook's URL. Raise InvalidWebhook."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_good = is_good and all("!" <= letter <= "~" for letter in url)
    except ValueError:
        is_good = False
    if not is_good:
        # It is not repeated here: many webhooks have their secret in it.
        raise InvalidWebhook(
            "this is not a URL of a webhook: it needs a form such as https://example.org/alerts, in ASCII, "
            "with other letters and spaces percent-encoded"
        )
    if parts.username is not None:
        raise InvalidWebhook(
            "the URL of the webhook has a user: give a header `Authorization: Basic ...`"
        )
    return parts


def read_headers(lines: list[str]) -> dict[str, str]:
    """Return headers that were given as `Name: value`. Raise InvalidWebhook."""
    headers = {}
    for number, line in enumerate(lines, 1):
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        is_token = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
        if not (colon and is_token and value.isprintable() and value.isascii()):
            # The line itself may be a secret.
            raise InvalidWebhook(f"header {number} is not `Name: value`")
        if name.lower() in _OWN_HEADERS:
            raise InvalidWebhook(f"the header {name} is set by the command itself")
        headers[name] = value
    return headers


class Endpoint:
    """A webhook, to which one attempt after the other is made, each with a connection of its own."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout_s: float) -> None:
        """Set what is common to all attempts. Raise InvalidWebhook for a URL that is none."""
        self._parts = check_url(url)
        self._headers = {
            "Content-Type": "application/json",
            "User-Agent": f"kavka/{__version__}",
            **headers,
        }
        self._timeout_s = timeout_s
        self._tls = ssl.create_default_context() if self._parts.scheme == "https" else None
        self.name = f"{self._parts.scheme}://{self._parts.netloc}"
        """Without path and query, in which many webhooks have their secret."""

    async def post(self, body: bytes, idempotency_key: str, stop: asyncio.Event) -> Outcome:
        """Make an attempt, which ends after the time-out, or when the event is set, whatever the endpoint does."""
        connection = self._connection()
        headers = {**self._headers, "Idempotency-Key": idempotency_key}
        attempt = asyncio.ensure_future(asyncio.to_thread(self._post, connection, body, headers))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait(
            (attempt, stopping), timeout=self._timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        stopping.cancel()
        if attempt.done():
            return attempt.result()
        # An endpoint that sends a byte now and then never meets the time-out of the socket.
        sock = connection.sock  # of the thread, which may close it at the same time
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        return Outcome(None, f"no answer in {self._timeout_s:g} s")

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname, self._parts.port
        assert host is not None
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=self._tls)

    def _post(
        self, connection: http.client.HTTPConnection, body: bytes, headers: Mapping[str, str]
    ) -> Outcome:
        target = self._parts.path or "/"
        if self._parts.query:
            target += f"?{self._parts.query}"
        try:
            connection.request("POST", target, body, dict(headers))
            response = connection.getresponse()
            status, reason = response.status, response.reason
            return Outcome(status, f"HTTP {status} {reason}", _seconds(response))
        except (OSError, http.client.HTTPException, ValueError) as error:
            # ValueError: a TLS socket was shut down meanwhile.
            return Outcome(None, str(error) or type(error).__name__)
        finally:
            connection.close()


def _seconds(response: http.client.HTTPResponse) -> float:
    """Return what Retry-After says (RFC 9110), 0 without it; a date counts from the endpoint's own."""
    text = response.getheader("Retry-After", "").strip()
    if text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        now = parsedate_to_datetime(response.getheader("Date", ""))
        return max((until - now).total_seconds(), 0.0)
    except (TypeError, ValueError, OverflowError):
        return 0.0
