"""Pages that go on: views as server-sent events, and work that ends when its reader has left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from starlette.requests import Request
from starlette.responses import StreamingResponse

from kavka.console.failures import EXPECTED, Failure, Refused, failure_of
from kavka.console.parameters import Arguments
from kavka.console.sentences import say
from kavka.console.subject import Page, Services

T = TypeVar("T")

_LOOK_S: Final = 0.25
EVENTS: Final = "text/event-stream"
_MOST_OPEN: Final = 100
"""Streams of views; each keeps one of the 200 connections of the server, which all users share."""


def asks_for_events(request: Request) -> bool:
    """Return whether a request asks for server-sent events, as a browser's EventSource does."""
    accepted: str = request.headers.get("accept", "")
    return accepted.startswith(EVENTS)


def is_wanted(page: Page, request: Request) -> bool:
    """Return whether a request asks for a page's views as events."""
    return page.live_s > 0 and asks_for_events(request) and request.method == "GET"


def stream_of(events: AsyncIterator[str]) -> StreamingResponse:
    """Return a response of server-sent events."""
    return StreamingResponse(events, media_type=EVENTS, headers={"Cache-Control": "no-store"})


def event_of(name: str, data: str) -> str:
    """Return a server-sent event; JSON has no line breaks of its own."""
    return f"event: {name}\ndata: {data}\n\n"


def failure_event(failure: Failure, table: Mapping[str, str]) -> str:
    """Return the event that says, by a table of sentences, why there is nothing to show: the status was sent before."""
    return event_of("failure", json.dumps(failure.translated(table)))


async def while_connected(request: Request, work: Coroutine[Any, Any, T] | Any) -> T:
    """Return what work returns; cancel it when the browser has left. Raise Refused then, which nothing reads."""
    task: asyncio.Task[T] = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=_LOOK_S))[0]:
            if await request.is_disconnected():
                raise Refused(
                    Failure(499, say("Stopped"), say("The browser has left."), say("Run it again."))
                )
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError, *EXPECTED):
                await task


class LivePages:
    """Views of pages at intervals. Readers of the same page share what was loaded for one of them."""

    def __init__(self, servers: str, is_still_in: Callable[[Request], bool]) -> None:
        """`servers` are named in failures; events end when `is_still_in` says that a reader's session has ended."""
        self._servers = servers
        self._is_still_in = is_still_in
        self._views: dict[str, tuple[float, Services, Any]] = {}
        # A lock goes with the last reader of its page: searches make pages without end.
        self._loading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._open = 0

    def response(
        self,
        request: Request,
        page: Page,
        services: Services,
        arguments: Arguments,
        name: str,
        text: Callable[[Any], str],
        table: Mapping[str, str],
    ) -> StreamingResponse:
        """Return the events of a page: `name` with what `text` makes of a view, `failure` where there is none.

        `table` is that of the reader's language for sentences.

        Raise Refused where as many as may be are open.
        """
        if self._open >= _MOST_OPEN:
            raise Refused(
                Failure(
                    503,
                    say("Too many readers"),
                    say(
                        "{open} pages of this console are shown live at this moment, which is its "
                        "limit.",
                        open=self._open,
                    ),
                    say("Load the page again to see it as it is now."),
                )
            )

        async def events() -> AsyncIterator[str]:
            before = ""
            self._open += 1
            try:
                while self._is_still_in(request):
                    event = await self._event(page, services, arguments, name, text, table)
                    yield ": no change\n\n" if event == before else event
                    before = event
                    await asyncio.sleep(page.live_s)
            finally:
                self._open -= 1

        return stream_of(events())

    async def _event(
        self,
        page: Page,
        services: Services,
        arguments: Arguments,
        name: str,
        text: Callable[[Any], str],
        table: Mapping[str, str],
    ) -> str:
        try:
            data = text(await self._view(page, services, arguments))
        except EXPECTED as error:  # the next one may be a view again
            return failure_event(failure_of(error, self._servers), table)
        return event_of(name, data)

    async def _view(self, page: Page, services: Services, arguments: Arguments) -> Any:
        key = f"{page.path} {sorted(arguments.values().items())} {sorted(arguments.path.items())}"
        loop = asyncio.get_running_loop()
        async with self._loading.setdefault(key, asyncio.Lock()):
            known = self._views.get(key)
            is_late = known is None or loop.time() - known[0] > page.live_s / 2
            if known is None or is_late or known[1] is not services:  # others may see other topics
                known = (loop.time(), services, await page.load(services, arguments))
                self._views = {key: known}
        return known[2]
