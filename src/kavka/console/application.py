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
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from kavka.console import live, login_pages, openapi
from kavka.console.access.exposure import Exposure, sender_of
from kavka.console.access.permissions import need_of
from kavka.console.alerts.service import Alerts
from kavka.console.bodies import form_of, json_of
from kavka.console.connection import ClusterConnection
from kavka.console.failures import EXPECTED, Failure, Refused, bad_request, failure_of, not_found
from kavka.console.formats import plain, utf8_of
from kavka.console.gate import Gate, LoginNeeded, set_sender
from kavka.console.history.recorder import History
from kavka.console.languages import COOKIE as LANGUAGE_COOKIE
from kavka.console.languages import LANGUAGES, SENTENCES, language_of
from kavka.console.languages import PARAMETER as LANGUAGE
from kavka.console.notices import Notices
from kavka.console.options import ConsoleOptions
from kavka.console.pages import (
    acls,
    alerts,
    audit,
    broker_settings,
    brokers,
    elections,
    export,
    groups,
    history,
    messages,
    overview,
    pipelines,
    produce,
    quotas,
    reassignments,
    rules,
    schemas,
    sql,
    topic_changes,
    topics,
    transactions,
    users,
)
from kavka.console.parameters import Arguments
from kavka.console.registry import Registry
from kavka.console.rendering import ASSETS, environment, part_of_path, query_with
from kavka.console.sampler import Sampler
from kavka.console.security import (
    COOKIE,
    TOKEN_FIELD,
    Tokens,
    headers_of,
    make_id,
    refusal_of_request,
)
from kavka.console.sentences import say
from kavka.console.subject import Action, Download, Outcome, Page, Services
from kavka.console.tail import TailBatch

log = logging.getLogger(__name__)

SUBJECTS: Final = (
    overview,
    brokers,
    broker_settings,
    topics,
    topic_changes,
    reassignments,
    elections,
    messages,
    produce,
    groups,
    history,
    alerts,
    rules,
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
_SECRETS: Final = {one.name for page in PAGES for one in page.parameters if one.kind == "secret"}
_LANGUAGE_S: Final = 365 * 86_400

_LOG_IN: Final = Failure(
    401,
    say("You are not logged in"),
    say("The session has ended, or there was none."),
    say(
        "Log in. Programs send user and password as JSON to /api/login, and then the cookie that they get."
    ),
)

Endpoint = Callable[[Request], Awaitable[Response]]


def create_application(options: ConsoleOptions) -> Starlette:
    """Return the application; it connects with the first page. Raise InvalidSetting for settings of clients.

    Raise InvalidRules and HistoryError for the files of rules and history.
    """
    return _Console(options).application()


class _Console:
    """One console: its connection, its templates, and the endpoints that answer with them."""

    def __init__(self, options: ConsoleOptions) -> None:
        self._options = options
        cluster = ClusterConnection(options)
        kept = History(cluster, options)
        registry = Registry(options.registry, options.timeout_ms) if options.registry else None
        self._services = Services(
            cluster,
            Sampler(cluster, options.sample_interval_ms),
            kept,
            Alerts(kept, cluster, options.rules),
            registry,
        )
        self._templates = {language: environment(language) for language in LANGUAGES}
        self._tokens = Tokens()
        self._notices = Notices()
        self._gate = Gate(options)
        self._live = live.LivePages(options.bootstrap_servers, self._gate.is_still_in)
        self._description = openapi.document(PAGES, ACTIONS, DOWNLOADS)

    def application(self) -> Starlette:
        """Return the routes in one application."""
        forms = {action.page.path: action for action in ACTIONS}
        routes = [
            Mount("/assets", StaticFiles(directory=ASSETS), name="assets"),
            *login_pages.routes(self._gate, self._tokens, self._route, self._html),
            self._route("GET", "/api", self._api_page),
            self._route("GET", "/api/openapi.json", self._openapi),
            self._route("GET", "/topics/{topic}/tail", self._tail_endpoint(self._html_batch)),
            self._route("GET", "/api/topics/{topic}/tail", self._tail_endpoint(_json_batch)),
            self._route("GET", f"{messages.RECORD.path}/value", self._value),
        ]
        for download in DOWNLOADS:
            for path in (download.path, openapi.PREFIX + download.path):
                routes.append(self._route("GET", path, self._download(download)))
        for page in PAGES:
            action = forms.get(page.path)
            api_path = openapi.PREFIX + ("/overview" if page.path == "/" else page.path)
            routes.append(self._route("GET", page.path, self._html_page(page)))
            routes.append(self._route("GET", api_path, self._json_page(page)))
            if action is not None:
                routes.append(self._route("POST", page.path, self._html_action(action)))
                routes.append(self._route("POST", api_path, self._json_action(action)))
        made = Starlette(
            routes=routes,
            lifespan=self._lifespan,
            exception_handlers={HTTPException: self._http_error},
        )
        made.state.gate = self._gate
        made.state.services = self._services
        made.add_middleware(_Guard, refuse=self._failed, exposure=self._options.exposure)
        return made

    @asynccontextmanager
    async def _lifespan(self, application: Starlette) -> AsyncIterator[None]:
        await self._services.alerts.start()
        self._services.sampler.start()
        self._services.history.start()
        try:
            yield
        finally:
            await self._services.sampler.stop()
            await self._services.alerts.stop()
            await self._services.history.stop()
            await self._services.cluster.close()
            if self._services.registry is not None:
                self._services.registry.close()

    # Errors

    def _route(self, method: str, path: str, answer: Endpoint) -> Route:
        """Return a route that compares the user with the need of its path, and says errors as a page or as JSON."""
        need = need_of(method, path)

        async def endpoint(request: Request) -> Response:
            try:
                self._gate.admit(request, need)
                return await answer(request)
            except LoginNeeded:
                if method == "GET" and not _is_api(request):
                    return self._gate.to_login(request)
                return self._failed(request, _LOG_IN)
            except HTTPException:  # a form with too many fields; `_http_error` says it
                raise
            except Exception as error:  # whatever it is, the reader gets a page that says so
                failure = failure_of(error, self._options.bootstrap_servers)
                if failure.status == 500:
                    log.exception("page failed path=%s", request.url.path)
                if failure.status == 403:
                    self._gate.audit_refusal(request, failure.detail)
                return self._failed(request, failure)

        return Route(path, endpoint, methods=[method])

    def _services_of(
        self, request: Request, page: Page | Download, method: str = "GET"
    ) -> Services:
        return self._gate.services(request, self._services, need_of(method, page.path))

    def _failed(self, request: Request, failure: Failure) -> Response:
        if _is_api(request):
            return _Json(plain(failure), failure.status)
        return self._html(request, "failure.html", {"failure": failure}, failure.status)

    async def _http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            path = request.url.path[:200]
            failure = not_found(
                say("The console has no page {path}.", path=path), say("Begin at the overview.")
            ).failure
        else:
            failure = Failure(
                error.status_code,
                say("Not possible"),
                say("{detail}.", detail=error.detail),
                say("Go back."),
            )
        return self._failed(request, failure)

    # Pages

    def _html_page(self, page: Page) -> Endpoint:
        async def answer(request: Request) -> Response:
            arguments = Arguments(page.parameters, request.query_params, request.path_params)
            services = self._services_of(request, page)
            if live.is_wanted(page, request):

                def text(view: Any) -> str:
                    context = _context(view, arguments)
                    return json.dumps({"html": self._text(request, page.template, context)})

                table = _sentences(request)
                return self._live.response(request, page, services, arguments, "page", text, table)
            view = await self._loaded(page, request, services, arguments)
            return self._html(request, page.template, _context(view, arguments), 200)

        return answer

    def _json_page(self, page: Page) -> Endpoint:
        async def answer(request: Request) -> Response:
            arguments = Arguments(page.parameters, request.query_params, request.path_params)
            services = self._services_of(request, page)
            if live.is_wanted(page, request):
                return self._live.response(
                    request,
                    page,
                    services,
                    arguments,
                    "view",
                    lambda view: json.dumps(plain(view)),
                    _sentences(request),
                )
            view = await self._loaded(page, request, services, arguments)
            return _Json(plain(view))

        return answer

    async def _loaded(
        self, page: Page, request: Request, services: Services, arguments: Arguments
    ) -> Any:
        """Return a view, with a line of the audit whatever comes of one that is audited."""
        loading = page.load(services, arguments)
        if page.ends_with_reader:
            loading = live.while_connected(request, loading)
        if not page.audited or not request.query_params.get(page.audited, "").strip():
            return await loading
        outcome = "failed: it was ended"  # by the console's own end
        try:
            view = await loading
            outcome = view.outcome
            return view
        except Exception as error:  # whatever it is, the page says it, and the audit
            failure = failure_of(error, self._options.bootstrap_servers)
            word = "refused" if failure.status == 403 else "failed"
            outcome = f"{word}: {failure.title}"  # the detail may quote a record
            raise
        finally:
            given = {**request.path_params, **arguments.values()}
            self._gate.audit(request, given, outcome)

    def _html(
        self, request: Request, template: str, context: Mapping[str, Any], status: int
    ) -> Response:
        browser = self._gate.browser(request) or make_id()
        body = self._text(request, template, context, browser)
        response = HTMLResponse(utf8_of(body), status, {"Cache-Control": "no-store"})
        if not self._gate.visit(request).session_id and request.cookies.get(COOKIE, "") != browser:
            self._gate.set_cookie(response, COOKIE, browser)
        chosen = request.query_params.get(LANGUAGE, "")
        if chosen == _language(request):
            self._gate.set_cookie(response, LANGUAGE_COOKIE, chosen, _LANGUAGE_S)
        return response

    def _text(
        self, request: Request, template: str, context: Mapping[str, Any], browser: str = ""
    ) -> str:
        visit = self._gate.visit(request)
        language = _language(request)
        text: str = (
            self._templates[language]
            .get_template(template)
            .render(
                {
                    "language": language,
                    "languages": _language_links(request),
                    "request_path": _own_path(request),
                    "servers": self._options.bootstrap_servers if visit.user else "",
                    "user": visit.user,
                    "may": visit.may,
                    "sees_all": visit.sees_all,
                    "csrf_token": self._tokens.token(browser),
                    "token_field": TOKEN_FIELD,
                    "notice": self._notices.get(request.query_params.get("notice", ""), browser),
                    "form_failure": None,
                    **context,
                }
            )
        )
        return text

    async def _api_page(self, request: Request) -> Response:
        return self._html(request, "api.html", {"paths": self._description["paths"]}, 200)

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(self._description)

    async def _value(self, request: Request) -> Response:
        arguments = Arguments((), {}, request.path_params)
        record = await messages.record_at(self._services_of(request, messages.RECORD), arguments)
        self._gate.audit(request, request.path_params, "ok")
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
            file = await download.load(self._services_of(request, download), arguments)
            self._gate.audit(request, {**request.path_params, **arguments.values()}, "ok")
            headers = {"Content-Disposition": f'attachment; filename="{part_of_path(file.name)}"'}
            if file.note:
                headers["Kavka-Reach"] = file.note
            return Response(file.data, media_type=file.media_type, headers=headers)

        return answer

    # Actions

    def _html_action(self, action: Action) -> Endpoint:
        async def answer(request: Request) -> Response:
            browser = self._gate.browser(request)
            form = await form_of(request, self._tokens, browser, _MOST_BODY_BYTES)
            arguments = Arguments(action.page.parameters, form, request.path_params)
            try:
                outcome = await self._act(request, action, arguments)
            except EXPECTED as error:  # the form is shown again with the reason
                return await self._form_again(request, action, arguments, error)
            notice = self._notices.add(outcome.message, browser)
            separator = "&" if "?" in outcome.location else "?"
            return RedirectResponse(f"{outcome.location}{separator}notice={notice}", 303)

        return answer

    async def _act(self, request: Request, action: Action, arguments: Arguments) -> Outcome:
        """Carry out an action, with a line of the audit whatever comes of it."""
        result = "cancelled: whether it was done is unknown"  # by the console's own end
        try:
            group = arguments.values().get("id", request.path_params.get("id", ""))
            self._gate.require_group(request, need_of("POST", action.page.path), group)
            services = self._services_of(request, action.page, "POST")
            outcome = await action.act(services, arguments)
            result = "ok"
            return outcome
        except Exception as error:  # whatever it is, the page says it, and the audit
            failure = failure_of(error, self._options.bootstrap_servers)
            may_quote = arguments.has_content or not isinstance(error, EXPECTED)
            reason = "" if may_quote else f": {failure.detail}"
            word = "refused" if failure.status == 403 else "failed"
            result = f"{word}: {failure.title}{reason}"
            raise
        finally:
            self._gate.audit(request, {**request.path_params, **arguments.audited()}, result)

    async def _form_again(
        self, request: Request, action: Action, arguments: Arguments, error: Exception
    ) -> Response:
        failure = failure_of(error, self._options.bootstrap_servers)
        if failure.status >= 500 or failure.status == 403:
            raise error
        try:
            view = await action.page.load(self._services_of(request, action.page), arguments)
        except Refused:  # the value that is wrong keeps the form from being filled
            raise error from None
        context = {**_context(view, arguments), "form_failure": failure}
        return self._html(request, action.page.template, context, failure.status)

    def _json_action(self, action: Action) -> Endpoint:
        async def answer(request: Request) -> Response:
            given = await json_of(request, _MOST_BODY_BYTES)
            if not isinstance(given, dict):
                raise bad_request(say("The body is no JSON object."))
            arguments = Arguments(action.page.parameters, given, request.path_params)
            return _Json(plain(await self._act(request, action, arguments)))

        return answer

    # The live tail

    def _tail_endpoint(
        self, batch_text: Callable[[Services, Arguments, TailBatch, str], Awaitable[str]]
    ) -> Endpoint:
        async def answer(request: Request) -> Response:
            arguments = Arguments(messages.FILTERS, request.query_params, request.path_params)
            services = self._services_of(request, messages.MESSAGES)
            if request.method == "HEAD":  # events would never end
                return Response(media_type=live.EVENTS)
            batches = messages.tail(services, arguments)
            language, table = _language(request), _sentences(request)
            first = await anext(batches)  # an error before it is a page, not an event

            async def events() -> AsyncIterator[str]:
                try:
                    text = await batch_text(services, arguments, first, language)
                    yield live.event_of("records", text)
                    async for batch in batches:
                        if not self._gate.is_still_in(request):
                            yield live.failure_event(_LOG_IN, table)
                            return
                        text = await batch_text(services, arguments, batch, language)
                        yield live.event_of("records", text)
                except EXPECTED as error:
                    failure = failure_of(error, self._options.bootstrap_servers)
                    yield live.failure_event(failure, table)
                finally:
                    await batches.aclose()

            return live.stream_of(events())

        return answer

    async def _html_batch(
        self, services: Services, arguments: Arguments, batch: TailBatch, language: str
    ) -> str:
        views = await messages.record_views(services, batch.records[::-1])
        rows = (
            self._templates[language]
            .get_template("record_rows.html")
            .render(topic=arguments.path["topic"], records=views)
        )
        return json.dumps(
            {"rows": rows, "shown": len(views), "seen": batch.seen, "kept": batch.kept}
        )


async def _json_batch(
    services: Services, arguments: Arguments, batch: TailBatch, language: str
) -> str:
    views = await messages.record_views(services, batch.records)
    return json.dumps({"records": plain(views), "seen": batch.seen, "kept": batch.kept})


def _context(view: Any, arguments: Arguments) -> dict[str, Any]:
    return {"view": view, "values": arguments.values(), "path": arguments.path}


def _language(request: Request) -> str:
    return language_of(
        request.query_params.get(LANGUAGE, ""),
        request.cookies.get(LANGUAGE_COOKIE, ""),
        request.headers.get("accept-language", ""),
    )


def _sentences(request: Request) -> Mapping[str, str]:
    """Return the table of sentences for a page; the JSON API is English."""
    return {} if _is_api(request) else SENTENCES[_language(request)]


def _language_links(request: Request) -> list[tuple[str, str, str]]:
    """Return code, name and address of this page in each language; a secret that stood in the address is left out."""
    path = _own_path(request)
    query = {name: value for name, value in request.query_params.items() if name not in _SECRETS}
    return [
        (code, name, path + query_with({**query, LANGUAGE: code}))
        for code, (name, _) in LANGUAGES.items()
    ]


def _own_path(request: Request) -> str:
    """Return the path of a request for links to it: with two slashes at its beginning it would name another host."""
    path: str = request.url.path
    return "/" + path.lstrip("/\\")


def _is_api(request: Request) -> bool:
    path: str = request.url.path
    return path.startswith(openapi.PREFIX + "/")


class _Json(JSONResponse):  # type: ignore[misc]  # starlette has no types here
    """JSON of any texts: a record may have some that UTF-8 does not."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return utf8_of(json.dumps(content, ensure_ascii=False, separators=(",", ":")))


class _Guard:
    """Around everything: refuses requests of other sites and under other names, and adds headers to every response."""

    def __init__(
        self, app: Any, refuse: Callable[[Request, Failure], Response], exposure: Exposure
    ) -> None:
        self._app = app
        self._refuse = refuse
        self._exposure = exposure
        self._headers = [(k.lower().encode(), v.encode()) for k, v in headers_of(exposure).items()]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *self._headers]}
            await send(message)

        request = Request(scope)
        peer = scope["client"][0] if scope.get("client") else ""
        sender = sender_of(peer, scope["scheme"], request.headers, self._exposure)
        if isinstance(sender, Failure):
            refusal: Failure | None = sender
        else:
            set_sender(scope, sender)
            refusal = refusal_of_request(request.headers, self._exposure)
        if refusal is not None:
            await self._refuse(request, refusal)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)
