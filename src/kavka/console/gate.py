"""The gate of a console: finds the user of a request, compares with the need of the route, and answers logins."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kavka.console.access import audit
from kavka.console.access.brake import Brake
from kavka.console.access.exposure import Exposure, Sender, local_path
from kavka.console.access.masks import masks_of
from kavka.console.access.permissions import need_of
from kavka.console.access.roles import LOCAL, Need, Role, User, highest
from kavka.console.access.sessions import Session, Sessions
from kavka.console.failures import Failure, Refused, not_found
from kavka.console.live import asks_for_events
from kavka.console.options import ConsoleOptions
from kavka.console.scope import forbidden, scoped
from kavka.console.security import COOKIE
from kavka.console.sentences import NOTHING, as_is, say
from kavka.console.subject import Services

if TYPE_CHECKING:
    from kavka.console.access.oidc import Identity, Provider
    from kavka.console.access.passwords import UsersFile

log = logging.getLogger(__name__)

REFRESH: Final = "x-refresh"
"""The header of requests that a page makes by itself: they keep no session alive."""
_VISIT: Final = "kavka.visit"
_SENDER: Final = "kavka.sender"
_AUDITED: Final = "kavka.audited"
_PENDING_COOKIE: Final = "kavka_oidc"
_KNOWN_COOKIE: Final = "kavka_known"
_KNOWN_S: Final = 180 * 86_400
_MOST_NAME_CHARACTERS: Final = 200

WRONG: Final = Failure(
    401,
    say("Not logged in"),
    say("User or password is wrong."),
    say("Try again, or ask an administrator."),
)


class LoginNeeded(Exception):
    """A request needs a user, and has none."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A request with its user; None before a login."""

    user: User | None
    """With what the console's read-only mode leaves."""
    owner: User | None
    """With all grants: masks go by these."""
    session_id: str
    sender: Sender

    @property
    def sees_all(self) -> bool:
        """True for a user who may look at everything."""
        return self.user is not None and self.user.may_on_all(Role.VIEWER)

    def may(
        self, method: str, path: str, topic: str | None = None, group: str | None = None
    ) -> bool:
        """Return whether a page shows what leads to a route; on any topic or group, if none is named."""
        if self.user is None:
            return False
        need = need_of(method, path)
        if topic is None and group is None and need.scope in ("topic", "group"):
            return self.user.may(need.role)
        return self.user.meets(need, topic, group)


def set_sender(scope: Any, sender: Sender) -> None:
    """Remember the browser of a request, as the proxy or the connection says."""
    scope[_SENDER] = sender


class Gate:
    """The logins and the users of one console."""

    def __init__(self, options: ConsoleOptions) -> None:
        """Take the options. Raise BadAccess for a file of users that cannot be used."""
        self.access = options.access
        self.exposure: Exposure = options.exposure
        self.users: UsersFile | None = None
        self.provider: Provider | None = None
        if self.access.users_file:
            from kavka.console.access.passwords import UsersFile

            self.users = UsersFile(self.access.users_file)
        if self.access.oidc is not None:
            from kavka.console.access.oidc import PendingLogins, Provider

            self.provider = Provider(self.access.oidc)
            self._pending = PendingLogins()
        self._sessions = Sessions(self.access.idle_s, self.access.absolute_s)
        self._brake = Brake()

    # Users of requests

    @property
    def cookie(self) -> str:
        """The name of the session's cookie; `__Host-` binds it to this host and to https."""
        return "__Host-kavka_session" if self.exposure.is_secure else "kavka_session"

    def visit(self, request: Request) -> Visit:
        """Return a request with its user."""
        found = request.scope.get(_VISIT)
        if found is None:
            found = request.scope[_VISIT] = self._visit(request)
        assert isinstance(found, Visit)
        return found

    def _visit(self, request: Request) -> Visit:
        sender = request.scope.get(_SENDER) or Sender("", request.url.scheme)
        if not self.access.has_login:
            return Visit(self._capped(LOCAL), LOCAL, "", sender)
        session_id = request.cookies.get(self.cookie, "")
        # A browser opens a stream of events again by itself, and sends no header of ours with it.
        is_use = REFRESH not in request.headers and not asks_for_events(request)
        owner = self._user(session_id, is_use=is_use)
        if owner is None:
            return Visit(None, None, "", sender)
        return Visit(self._capped(owner), owner, session_id, sender)

    def _capped(self, user: User) -> User:
        return user.capped(Role.VIEWER) if self.access.read_only else user

    def _user(self, session_id: str, *, is_use: bool) -> User | None:
        session = self._sessions.find(session_id, time.monotonic(), is_use=is_use)
        if session is None:
            return None
        if session.source == "local" and not self._is_current(session):
            self._sessions.end(session_id)
            return None
        name = session.user if session.source == "local" else ""
        grants = self.access.grants_of(name, session.claims)
        return User(session.user, session.source, grants) if grants else None

    def _is_current(self, session: Session) -> bool:
        """Return whether a local user still has the password of the session."""
        try:
            return self.users is not None and self.users.proof_of(session.user) == session.proof
        except (OSError, ValueError) as error:
            log.error("users-file cannot be read reason=%s", error)
            return False

    def browser(self, request: Request) -> str:
        """Return what a form's token belongs to: the session, else the browser's id."""
        return self.visit(request).session_id or request.cookies.get(COOKIE, "")

    def is_still_in(self, request: Request) -> bool:
        """Return whether the session of a long response has not ended meanwhile."""
        visit = self.visit(request)
        if not self.access.has_login:
            return True
        user = self._user(visit.session_id, is_use=False)
        return user is not None and user == visit.owner

    # Needs

    def admit(self, request: Request, need: Need) -> None:
        """Compare the user of a request with the need of its route. Raise LoginNeeded, Refused."""
        visit = self.visit(request)
        if need.scope == "public":
            return
        if visit.user is None:
            raise LoginNeeded
        group = request.query_params.get("id", "")
        if need.scope == "group" and request.method == "POST":
            need, group = (
                Need(need.role, "any"),
                "",
            )  # `require_group` follows, when the body was read
        if not visit.user.meets(need, request.path_params.get("topic"), group):
            raise self._refusal(request, need)

    def require_group(self, request: Request, need: Need, group: str) -> None:
        """Compare with the group that a body names. Raise Refused."""
        user = self.visit(request).user
        if need.scope == "group" and (user is None or not user.meets(need, None, group)):
            raise self._refusal(request, need)

    def _refusal(self, request: Request, need: Need) -> Refused:
        visit = self.visit(request)
        if self.access.read_only and need.role > Role.VIEWER:
            return Refused(
                Failure(
                    403,
                    say("This console is read-only"),
                    say("It was started to look, not to change."),
                    say("Use the commands, or a console without --read-only."),
                )
            )
        topic = request.path_params.get("topic", "")[:250]
        on = {
            "topic": say(" on the topic {topic!r}", topic=topic),
            "group": say(" on this group"),
            "cluster": say(" on all topics and groups"),
        }.get(need.scope, NOTHING)
        role = highest(visit.user.grants) if visit.user is not None else None
        return forbidden(
            say(
                "It needs the role {role}{on}; your highest role is {highest}.",
                role=need.role.label,
                on=on,
                highest=role.label if role else say("none"),
            )
        )

    def services(self, request: Request, services: Services, need: Need) -> Services:
        """Return the services as the user of a request may use them."""
        visit = self.visit(request)
        assert visit.user is not None
        assert visit.owner is not None
        masks = masks_of(self.access.masks, visit.owner)
        return scoped(services, visit.user, need, masks)

    def audit_refusal(self, request: Request, detail: str) -> None:
        """Write that a request was refused, unless the audit has a line about it."""
        if _AUDITED not in request.scope:
            self.audit(request, request.path_params, f"refused: {detail}")

    def audit(self, request: Request, on: Mapping[str, Any], result: str, user: str = "") -> None:
        """Write a line of the audit about a request; `user` is the name that a login gave."""
        request.scope[_AUDITED] = True
        visit = self.visit(request)
        who = visit.user
        audit.record(
            user or (who.name if who else ""),
            who.source if who else "",
            visit.sender.address,
            f"{request.method} {request.url.path}",
            {name: str(value) for name, value in on.items()},
            result,
        )

    def to_login(self, request: Request) -> Response:
        """Return the way to the login, from a page or from a part of one."""
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        location = "/login?" + urlencode({"next": local_path(target)})
        if request.headers.get("hx-request") == "true":
            return Response(status_code=401, headers={"HX-Redirect": location})
        return RedirectResponse(location, 303)

    # Logins

    async def log_in(self, request: Request, name: str, password: str) -> str:
        """Return the id of a new session of a local user. Raise Refused."""
        if self.users is None:
            raise Refused(WRONG)
        address = self.visit(request).sender.address
        mark = request.cookies.get(_KNOWN_COOKIE, "")
        wait_s = self._brake.begin(name, address, mark, time.monotonic())
        if wait_s > 0:
            self.audit(request, {}, "refused: too many attempts", name)
            raise Refused(
                Failure(
                    429,
                    say("Too many attempts"),
                    say("Try again in {wait_s} seconds.", wait_s=round(wait_s) + 1),
                    say("An administrator sets a new password with `kavka console-users --set`."),
                )
            )
        try:
            proof = await self.users.check(name, password)
        except (OSError, ValueError) as error:
            log.error("users-file cannot be read reason=%s", error)
            proof = ""
        if not proof or len(name) > _MOST_NAME_CHARACTERS:
            self.audit(request, {}, "refused: wrong user or password", name)
            raise Refused(WRONG)
        self._brake.succeeded(name, address, mark, time.monotonic())
        return self._begin(request, name, "local", (), proof)

    def _begin(
        self, request: Request, name: str, source: str, claims: tuple[str, ...], proof: str
    ) -> str:
        if not self.access.grants_of(name if source == "local" else "", claims):
            self.audit(request, {"source": source}, "refused: no grants", name)
            raise Refused(
                Failure(
                    403,
                    say("No role was granted to you"),
                    say("The login is right, and no grant of the console names you."),
                    say("Ask an administrator of the console for a grant."),
                )
            )
        self._sessions.end(request.cookies.get(self.cookie, ""))
        self.audit(request, {"source": source}, "ok", name)
        return self._sessions.begin(name, source, claims, proof, time.monotonic())

    async def begin_oidc(self, request: Request, target: str) -> Response:
        """Send the browser to the provider. Raise Refused."""
        from kavka.console.access.oidc import LoginFailed

        provider = self._required_provider()
        origin = self.exposure.origin or f"{request.url.scheme}://{request.headers['host']}"
        number, pending = self._pending.begin(
            local_path(target), f"{origin}/login/oidc/callback", time.monotonic()
        )
        try:
            address = await asyncio.to_thread(provider.address, pending)
        except LoginFailed as error:
            raise self._oidc_failed(request, error) from error
        response = RedirectResponse(address, 303)
        self.set_cookie(response, _PENDING_COOKIE, number, 600)
        return response

    async def end_oidc(self, request: Request) -> Response:
        """Return the response to a browser that comes back from the provider. Raise Refused."""
        from kavka.console.access.oidc import LoginFailed

        provider = self._required_provider()
        answer = dict(request.query_params)
        try:
            pending = self._pending.take(
                request.cookies.get(_PENDING_COOKIE, ""), answer.get("state", ""), time.monotonic()
            )
            found: Identity = await asyncio.to_thread(provider.identity, pending, answer)
        except LoginFailed as error:
            raise self._oidc_failed(request, error) from error
        session_id = self._begin(request, found.name, "oidc", found.claims, "")
        response = self.with_session(RedirectResponse(pending.target, 303), session_id, "")
        response.delete_cookie(_PENDING_COOKIE)
        return response

    def _required_provider(self) -> Provider:
        if self.provider is None:
            raise not_found(say("No OpenID provider is named."), say("Use a password."))
        return self.provider

    def _oidc_failed(self, request: Request, error: Exception) -> Refused:
        self.audit(request, {"source": "oidc"}, f"refused: {error}")
        return Refused(
            Failure(
                401,
                say("Not logged in"),
                as_is(f"{error}."),
                say("Begin the login again; if it stays so, look at the console's log."),
            )
        )

    def log_out(self, request: Request, response: Response) -> Response:
        """End the session of a request."""
        visit = self.visit(request)
        if visit.session_id:
            self._sessions.end(visit.session_id)
            self.audit(request, {}, "ok")
        self.set_cookie(response, self.cookie, "", 0)
        response.headers["Clear-Site-Data"] = '"cache"'
        return response

    def with_session(self, response: Response, session_id: str, local_user: str) -> Response:
        """Give a browser its new session, and the mark of a browser that is known for a local user."""
        self.set_cookie(response, self.cookie, session_id)
        if local_user:
            self.set_cookie(response, _KNOWN_COOKIE, self._brake.mark(local_user), _KNOWN_S)
        return response

    def set_cookie(
        self, response: Response, name: str, value: str, max_age: int | None = None
    ) -> None:
        """Set a cookie that no script reads and no other site sends with what changes something."""
        response.set_cookie(
            name,
            value,
            max_age=max_age,
            httponly=True,
            # Strict would not come back from the provider, nor with a link that a colleague has sent.
            samesite="lax",
            secure=self.exposure.is_secure,
        )
