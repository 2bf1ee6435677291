"""A protocol for uvicorn that ends connections which send a request, or take its response, too slowly.

uvicorn bounds neither, so a few hundred connections that send a byte a minute would keep others out (Slowloris).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_REQUEST_S: Final = 10.0
_RESPONSE_S: Final = 30.0


class ImpatientProtocol(H11Protocol):  # type: ignore[misc]  # uvicorn has no types here
    """HTTP/1.1 with deadlines: for a whole request, and for a client that takes nothing of a response."""

    request_s = _REQUEST_S
    response_s = _RESPONSE_S

    def connection_made(self, transport: Any) -> None:
        """Begin the deadline of the first request."""
        self._request_timer: asyncio.TimerHandle | None = None
        self._response_timer: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadlines."""
        self._cancel()
        if self._response_timer is not None:
            self._response_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; the first ones of a request begin its deadline, and its last ones end it."""
        if self._request_timer is None:
            self._await_request()
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._cancel()

    def _await_request(self) -> None:
        self._request_timer = self.loop.call_later(self.request_s, self._abort)

    def _cancel(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def pause_writing(self) -> None:
        """Begin the deadline of a client that takes nothing."""
        if self._response_timer is None:
            self._response_timer = self.loop.call_later(self.response_s, self._abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        """End it: the client has taken something."""
        if self._response_timer is not None:
            self._response_timer.cancel()
            self._response_timer = None
        super().resume_writing()

    def _abort(self) -> None:
        self.transport.abort()
