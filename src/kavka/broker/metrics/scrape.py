"""A connection to the page: requests are read one after the other, each is answered before the next one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kavka.broker.metrics.basic_authentication import BasicAuthentication, Verdict
from kavka.io import Transport
from kavka.metrics.families import CONTENT_TYPE
from kavka.net.transport import host_of

log = logging.getLogger(__name__)

_END = b"\r\n\r\n"
_MAX_HEAD = 16 * 1024
_CHUNK = 4096
_IDLE_WINDOWS = 12
_PATHS = ("/metrics", "/")
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
}
_REFUSALS = {
    Verdict.REFUSED: 'WWW-Authenticate: Basic realm="kavka", charset="UTF-8"\r\n',
    Verdict.TOO_MANY: "Retry-After: 1\r\n",
}


class Scrape:
    """Implements `io.BufferedProtocol`."""

    def __init__(
        self,
        page: Callable[[], Awaitable[bytes]],
        opened: Callable[[Scrape], bool],
        closed: Callable[[Scrape], None],
        authentication: BasicAuthentication | None = None,
    ) -> None:
        """Serve `page`, to those that authenticate if need be; `opened` may refuse the connection."""
        self._page = page
        self._opened = opened
        self._closed = closed
        self._authentication = authentication
        self._transport: Transport | None = None
        self._chunk = bytearray(_CHUNK)
        self._received = bytearray()
        self._responding: asyncio.Task[None] | None = None
        self._idle_windows = 0
        self.host = ""
        """The address of the client."""

    @property
    def is_waiting(self) -> bool:
        """Return whether there is no request to answer."""
        return self._responding is None

    # -- BufferedProtocol

    def connection_made(self, transport: Transport) -> None:
        """Begin, or refuse."""
        self._transport = transport
        self.host = host_of(transport.get_extra_info("peername"))
        if not self._opened(self):
            transport.abort()

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return memory for the next bytes."""
        return self._chunk

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes, and answer a request that is complete now."""
        self._received += memoryview(self._chunk)[:nbytes]
        self._idle_windows = 0
        self._parse()

    def eof_received(self) -> bool:
        """Close."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget everything."""
        self._transport = None
        if self._responding is not None:
            self._responding.cancel()
        self._closed(self)

    def pause_writing(self) -> None:
        """Do nothing: no more is written before the next request."""

    def resume_writing(self) -> None:
        """See `pause_writing`."""

    # -- for the owner

    def abort(self) -> None:
        """Close now."""
        if self._transport is not None:
            self._transport.abort()

    def window_over(self) -> None:
        """Close a connection that has asked nothing for two minutes."""
        self._idle_windows += 1
        if self._idle_windows > _IDLE_WINDOWS:
            self.abort()

    # -- requests

    def _parse(self) -> None:
        if self._responding is not None or self._transport is None:
            return
        end = self._received.find(_END)
        if end < 0:
            if len(self._received) > _MAX_HEAD:
                self._send(431, b"", closes=True)
            return
        head = bytes(self._received[:end])
        del self._received[: end + len(_END)]
        self._responding = asyncio.get_running_loop().create_task(self._respond_or_fail(head))

    async def _respond_or_fail(self, head: bytes) -> None:
        try:
            await self._respond(head)
        except Exception:
            # A bug in one metric must not leave the scraper without a response.
            log.exception("metrics failed")
            self._send(500, b"", closes=True)
        self._responding = None
        self._parse()

    async def _respond(self, head: bytes) -> None:
        first, *others = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        headers = {
            name.strip().lower(): v.strip() for name, _, v in (o.partition(":") for o in others)
        }
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        if len(words) != 3 or not words[2].startswith("HTTP/1.") or has_body:
            self._send(400, b"", closes=True)
            return
        method, target, protocol = words
        said = headers.get("connection", "").lower()
        closes = said == "close" or (protocol == "HTTP/1.0" and said != "keep-alive")
        if method not in ("GET", "HEAD"):
            self._send(405, b"", closes=True, more="Allow: GET, HEAD\r\n")
        elif not await self._is_allowed(headers.get("authorization")):
            return
        elif target.partition("?")[0] not in _PATHS:
            self._send(404, b"The page is /metrics\n", closes=closes, is_head=method == "HEAD")
        else:
            body = await self._page()
            self._send(200, body, closes=closes, is_head=method == "HEAD")

    async def _is_allowed(self, header: str | None) -> bool:
        """Return whether a request may be answered; refuse one that may not."""
        if self._authentication is None or self._transport is None:
            return True
        peer = self._transport.get_extra_info("peername")
        verdict = await self._authentication.check(header, str(peer[0]) if peer else "")
        if verdict is Verdict.ALLOWED:
            return True
        self._send(verdict.value, b"", closes=True, more=_REFUSALS[verdict])
        return False

    def _send(
        self, status: int, body: bytes, *, closes: bool, is_head: bool = False, more: str = ""
    ) -> None:
        transport = self._transport
        if transport is None:
            return
        kind = CONTENT_TYPE if status == 200 else "text/plain; charset=utf-8"
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\n{more}"
            f"Connection: {'close' if closes else 'keep-alive'}\r\n\r\n"
        )
        transport.writelines((head.encode(), b"" if is_head else body))
        if closes:
            transport.close()
