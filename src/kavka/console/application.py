"""The console as an ASGI application: pages as HTML and as JSON, actions, the live tail, and one way to say errors."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from kavka.console import live, openapi
from kavka.console.connection import ClusterConnection
from kavka.console.failures import Failure, Refused, bad_request, failure_of, not_found
from kavka.console.formats import plain
from kavka.console.notices import Notices
from kavka.console.options import ConsoleOptions
from kavka.console.pages import (
    acls,
    audit,
    brokers,
    elections,
    export,
    groups,
    messages,
    overview,
    pipelines,
    produce,
    quotas,
    reassignments,
    schemas,
    sql,
    topic_changes,
    topics,
    transactions,
    users,
)
from kavka.console.parameters import Arguments
from kavka.console.registry import Registry
from kavka.console.rendering import ASSETS, environment, part_of_path
from kavka.console.sampler import Sampler
from kavka.console.security import (
    COOKIE,
    HEADERS,
    TOKEN_FIELD,
    Tokens,
    make_id,
    refusal_of_change,
    refusal_of_request,
)
from kavka.console.subject import Action, Download, Page, Services
from kavka.console.tail import TailBatch
from kavka.errors import KafkaError

log = logging.getLogger(__name__)

SUBJECTS: Final = (
    overview,
    brokers,
    topics,
    topic_changes,
    reassignments,
    elections,
    messages,
    produce,
    groups,
    transactions,
    acls,
    users,
    quotas,
    schemas,
    pipelines,
    sql,
    audit,
)
PAGES: Final[tuple[Page, ...]] = tuple(page for subject in SUBJECTS for page in subject.PAGES)
ACTIONS: Final[tuple[Action, ...]] = tuple(
    action for subject in SUBJECTS for action in subject.ACTIONS
)
DOWNLOADS: Final = export.DOWNLOADS
_MOST_BODY_BYTES: Final = 1 << 20

_EXPECTED: Final = (Refused, KafkaError, OSError)
"""Errors that a cluster or a request causes; others are mistakes of the console."""

Endpoint = Callable[[Request], Awaitable[Response]]


def create_application(options: ConsoleOptions) -> Starlette:
    """Return the application; it connects with the first page. Raise InvalidSetting for settings of clients."""
    return _Console(options).application()


class _Console:
    """One console: its connection, its templates, and the endpoints that answer with them."""

    def __init__(self, options: ConsoleOptions) -> None:
        self._options = options
        cluster = ClusterConnection(options)
        registry = Registry(options.registry, options.timeout_ms) if options.registry else None
        sampler = Sampler(cluster, options.sample_interval_ms)
        self._services = Services(cluster, sampler, registry)
        self._templates = environment()
        self._tokens = Tokens()
        self._notices = Notices()
        self._live = live.LivePages(self._services, options.bootstrap_servers)
        self._description = openapi.document(PAGES, ACTIONS, DOWNLOADS)

    def application(self) -> Starlette:
        """Return the routes in one application."""
        forms = {action.page.path: action for action in ACTIONS}
        routes = [
            Mount("/assets", StaticFiles(directory=ASSETS), name="assets"),
            Route("/api", self._saying_errors(self._api_page), methods=["GET"]),
            Route("/api/openapi.json", self._openapi, methods=["GET"]),
            Route("/topics/{topic}/tail", self._tail_endpoint(self._html_batch), methods=["GET"]),
            Route(
                "/api/topics/{topic}/tail", self._tail_endpoint(self._json_batch), methods=["GET"]
            ),
            Route(
                f"{messages.RECORD.path}/value", self._saying_errors(self._value), methods=["GET"]
            ),
        ]
        for download in DOWNLOADS:
            for path in (download.path, openapi.PREFIX + download.path):
                routes.append(Route(path, self._download(download), methods=["GET"]))
        for page in PAGES:
            action = forms.get(page.path)
            api_path = openapi.PREFIX + ("/overview" if page.path == "/" else page.path)
            routes.append(Route(page.path, self._html_page(page), methods=["GET"]))
            routes.append(Route(api_path, self._json_page(page), methods=["GET"]))
            if action is not None:
                routes.append(Route(page.path, self._html_action(action), methods=["POST"]))
                routes.append(Route(api_path, self._json_action(action), methods=["POST"]))
        made = Starlette(
            routes=routes,
            lifespan=self._lifespan,
            exception_handlers={HTTPException: self._http_error},
        )
        made.add_middleware(_Guard, refuse=self._failed)
        return made

    @asynccontextmanager
    async def _lifespan(self, application: Starlette) -> AsyncIterator[None]:
        self._services.sampler.start()
        try:
            yield
        finally:
            await self._services.sampler.stop()
            await self._services.cluster.close()
            if self._services.registry is not None:
                self._services.registry.close()

    # Errors

    def _saying_errors(self, answer: Endpoint) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            try:
                return await answer(request)
            except Exception as error:  # whatever it is, the reader gets a page that says so
                failure = failure_of(error, self._options.bootstrap_servers)
                if failure.status == 500:
                    log.exception("page failed path=%s", request.url.path)
                return self._failed(request, failure)

        return endpoint

    def _failed(self, request: Request, failure: Failure) -> Response:
        if request.url.path.startswith(openapi.PREFIX + "/"):
            return JSONResponse(plain(failure), failure.status)
        return self._html(request, "failure.html", {"failure": failure}, failure.status)

    async def _http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            failure = not_found(
                f"The console has no page {request.url.path[:200]}.", "Begin at the overview."
            )
        else:
            failure = Failure(error.status_code, "Not possible", f"{error.detail}.", "Go back.")
        return self._failed(request, failure)

    # Pages

    def _html_page(self, page: Page) -> Endpoint:
        async def answer(request: Request) -> Response:
            arguments = Arguments(page.parameters, request.query_params, request.path_params)
            if live.is_wanted(page, request):

                def text(view: Any) -> str:
                    context = _context(view, arguments)
                    return json.dumps({"html": self._text(request, page.template, context)})

                return self._live.response(page, arguments, "page", text)
            view = await self._loaded(page, request, arguments)
            return self._html(request, page.template, _context(view, arguments), 200)

        return self._saying_errors(answer)

    def _json_page(self, page: Page) -> Endpoint:
        async def answer(request: Request) -> Response:
            arguments = Arguments(page.parameters, request.query_params, request.path_params)
            if live.is_wanted(page, request):
                return self._live.response(
                    page, arguments, "view", lambda view: json.dumps(plain(view))
                )
            return JSONResponse(plain(await self._loaded(page, request, arguments)))

        return self._saying_errors(answer)

    async def _loaded(self, page: Page, request: Request, arguments: Arguments) -> Any:
        loading = page.load(self._services, arguments)
        return await (live.while_connected(request, loading) if page.ends_with_reader else loading)

    def _html(
        self, request: Request, template: str, context: Mapping[str, Any], status: int
    ) -> Response:
        browser = request.cookies.get(COOKIE, "") or make_id()
        body = self._text(request, template, context, browser)
        response = HTMLResponse(body, status, {"Cache-Control": "no-store"})
        if request.cookies.get(COOKIE, "") != browser:
            response.set_cookie(COOKIE, browser, httponly=True, samesite="strict")
        return response

    def _text(
        self, request: Request, template: str, context: Mapping[str, Any], browser: str = ""
    ) -> str:
        text: str = self._templates.get_template(template).render(
            {
                "request_path": request.url.path,
                "servers": self._options.bootstrap_servers,
                "csrf_token": self._tokens.token(browser),
                "token_field": TOKEN_FIELD,
                "notice": self._notices.get(request.query_params.get("notice", "")),
                "form_failure": None,
                **context,
            }
        )
        return text

    async def _api_page(self, request: Request) -> Response:
        return self._html(request, "api.html", {"paths": self._description["paths"]}, 200)

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(self._description)

    async def _value(self, request: Request) -> Response:
        arguments = Arguments((), {}, request.path_params)
        record = await messages.record_at(self._services, arguments)
        name = "-".join(
            part_of_path(arguments.path[part]) for part in ("topic", "partition", "offset")
        )
        return Response(
            record.value or b"",
            media_type="application/octet-stream",
            headers={"Content-Disposition": f'attachment; filename="{name}.bin"'},
        )

    def _download(self, download: Download) -> Endpoint:
        async def answer(request: Request) -> Response:
            arguments = Arguments(download.parameters, request.query_params, request.path_params)
            file = await download.load(self._services, arguments)
            headers = {"Content-Disposition": f'attachment; filename="{part_of_path(file.name)}"'}
            if file.note:
                headers["Kavka-Reach"] = file.note
            return Response(file.data, media_type=file.media_type, headers=headers)

        return self._saying_errors(answer)

    # Actions

    def _html_action(self, action: Action) -> Endpoint:
        async def answer(request: Request) -> Response:
            _require_small(request)
            form = {k: v for k, v in (await request.form()).items() if isinstance(v, str)}
            has_token = self._tokens.is_valid(
                request.cookies.get(COOKIE, ""), form.get(TOKEN_FIELD, "")
            )
            refusal = refusal_of_change(request.headers, has_token=has_token)
            if refusal is not None:
                raise Refused(refusal)
            arguments = Arguments(action.page.parameters, form, request.path_params)
            try:
                outcome = await action.act(self._services, arguments)
            except _EXPECTED as error:  # the form is shown again with the reason
                return await self._form_again(request, action, arguments, error)
            _log_change(action, arguments, outcome.message)
            notice = self._notices.add(outcome.message)
            separator = "&" if "?" in outcome.location else "?"
            return RedirectResponse(f"{outcome.location}{separator}notice={notice}", 303)

        return self._saying_errors(answer)

    async def _form_again(
        self, request: Request, action: Action, arguments: Arguments, error: Exception
    ) -> Response:
        failure = failure_of(error, self._options.bootstrap_servers)
        if failure.status >= 500:
            raise error
        try:
            view = await action.page.load(self._services, arguments)
        except Refused:  # the value that is wrong keeps the form from being filled
            raise error from None
        context = {**_context(view, arguments), "form_failure": failure}
        return self._html(request, action.page.template, context, failure.status)

    def _json_action(self, action: Action) -> Endpoint:
        async def answer(request: Request) -> Response:
            _require_small(request)
            refusal = refusal_of_change(request.headers, has_token=False)
            if refusal is not None:
                raise Refused(refusal)
            try:
                given = json.loads(await request.body())
            except ValueError:
                given = None
            if not isinstance(given, dict):
                raise Refused(bad_request("The body is no JSON object."))
            arguments = Arguments(action.page.parameters, given, request.path_params)
            outcome = await action.act(self._services, arguments)
            _log_change(action, arguments, outcome.message)
            return JSONResponse(plain(outcome))

        return self._saying_errors(answer)

    # The live tail

    def _tail_endpoint(
        self, batch_text: Callable[[Arguments, TailBatch], Awaitable[str]]
    ) -> Endpoint:
        async def answer(request: Request) -> Response:
            arguments = Arguments(messages.FILTERS, request.query_params, request.path_params)
            batches = messages.tail(self._services, arguments)
            first = await anext(batches)  # an error before it is a page, not an event

            async def events() -> AsyncIterator[str]:
                try:
                    yield _event("records", await batch_text(arguments, first))
                    async for batch in batches:
                        yield _event("records", await batch_text(arguments, batch))
                except _EXPECTED as error:  # the status was sent long ago: the stream says it
                    failure = failure_of(error, self._options.bootstrap_servers)
                    yield _event("failure", json.dumps(plain(failure)))
                finally:
                    await batches.aclose()

            return StreamingResponse(
                events(), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
            )

        return self._saying_errors(answer)

    async def _html_batch(self, arguments: Arguments, batch: TailBatch) -> str:
        views = await messages.record_views(self._services, batch.records[::-1])
        rows = self._templates.get_template("record_rows.html").render(
            topic=arguments.path["topic"], records=views
        )
        return json.dumps(
            {"rows": rows, "shown": len(views), "seen": batch.seen, "kept": batch.kept}
        )

    async def _json_batch(self, arguments: Arguments, batch: TailBatch) -> str:
        views = await messages.record_views(self._services, batch.records)
        return json.dumps({"records": plain(views), "seen": batch.seen, "kept": batch.kept})


def _event(name: str, data: str) -> str:
    """Return a server-sent event; JSON has no line breaks of its own."""
    return f"event: {name}\ndata: {data}\n\n"


def _context(view: Any, arguments: Arguments) -> dict[str, Any]:
    return {"view": view, "values": arguments.values(), "path": arguments.path}


def _require_small(request: Request) -> None:
    length = request.headers.get("content-length", "")
    if not length.isdecimal() or int(length) > _MOST_BODY_BYTES:
        raise Refused(
            bad_request(f"The body has no length, or more than {_MOST_BODY_BYTES} bytes.")
        )


def _log_change(action: Action, arguments: Arguments, message: str) -> None:
    log.info("change made path=%s message=%r", action.page.path, message)


class _Guard:
    """Around everything: refuses requests of other sites and under other names, and adds headers to every answer."""

    def __init__(self, app: Any, refuse: Callable[[Request, Failure], Response]) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                added = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        request = Request(scope)
        refusal = refusal_of_request(request.headers)
        if refusal is not None:
            await self._refuse(request, refusal)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)
