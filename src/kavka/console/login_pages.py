"""The routes of login and logout: a form, JSON for programs, the way to an OpenID provider and back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from kavka.console.access.exposure import local_path
from kavka.console.bodies import form_of, json_of, require_json
from kavka.console.failures import Failure, Refused, bad_request
from kavka.console.formats import is_text
from kavka.console.gate import Gate
from kavka.console.security import Tokens
from kavka.console.sentences import say

_MOST_BODY_BYTES: Final = 16_384

Endpoint = Callable[[Request], Awaitable[Response]]
MakeRoute = Callable[[str, str, Endpoint], Route]


class Render(Protocol):
    """Returns a page of a template."""

    def __call__(
        self, request: Request, template: str, context: Mapping[str, Any], status: int
    ) -> Response:
        """Render."""


def routes(gate: Gate, tokens: Tokens, route: MakeRoute, render: Render) -> list[Route]:
    """Return the routes; without a login there are none."""
    if not gate.access.has_login:
        return []
    pages = _LoginPages(gate, tokens, render)
    return [
        route("GET", "/login", pages.show),
        route("POST", "/login", pages.log_in),
        route("POST", "/api/login", pages.log_in_json),
        route("GET", "/login/oidc", pages.begin_oidc),
        route("GET", "/login/oidc/callback", gate.end_oidc),
        route("POST", "/logout", pages.log_out),
        route("POST", "/api/logout", pages.log_out_json),
    ]


class _LoginPages:
    def __init__(self, gate: Gate, tokens: Tokens, render: Render) -> None:
        self._gate = gate
        self._tokens = tokens
        self._render = render

    async def show(self, request: Request) -> Response:
        target = local_path(request.query_params.get("next", "/"))
        if self._gate.visit(request).user is not None:
            return RedirectResponse(target, 303)
        return self._form(request, target, None)

    def _form(self, request: Request, target: str, failure: Failure | None) -> Response:
        oidc = self._gate.access.oidc
        context = {
            "target": target,
            "form_failure": failure,
            "has_users": self._gate.users is not None,
            "oidc_label": oidc.label if oidc is not None else "",
        }
        return self._render(request, "login.html", context, failure.status if failure else 200)

    async def log_in(self, request: Request) -> Response:
        form = await self._sent_form(request)
        target = local_path(form.get("next", "/"))
        name = form.get("user", "").strip()
        try:
            session_id = await self._gate.log_in(request, name, form.get("password", ""))
        except Refused as error:
            return self._form(request, target, error.failure)
        return self._gate.with_session(RedirectResponse(target, 303), session_id, name)

    async def log_in_json(self, request: Request) -> Response:
        given = await json_of(request, _MOST_BODY_BYTES)
        name, password = (
            (given.get("user"), given.get("password")) if isinstance(given, dict) else (None, None)
        )
        if (
            not isinstance(name, str)
            or not isinstance(password, str)
            or not is_text(name + password)
        ):
            raise bad_request(
                say("The body has no user and password."),
                say('Send JSON such as {"user": "anna", "password": "..."}.'),
            )
        session_id = await self._gate.log_in(request, name, password)
        return self._gate.with_session(JSONResponse({"user": name}), session_id, name)

    async def begin_oidc(self, request: Request) -> Response:
        return await self._gate.begin_oidc(request, request.query_params.get("next", "/"))

    async def log_out(self, request: Request) -> Response:
        await self._sent_form(request)
        return self._gate.log_out(request, RedirectResponse("/login", 303))

    async def log_out_json(self, request: Request) -> Response:
        require_json(request, _MOST_BODY_BYTES)
        return self._gate.log_out(request, JSONResponse({}))

    async def _sent_form(self, request: Request) -> dict[str, str]:
        return await form_of(request, self._tokens, self._gate.browser(request), _MOST_BODY_BYTES)
