"""The permission of every route, in one place: a method and a path, and the need. Pure.

Pages and the JSON API have the same: `/api` is left out. A route that is not here needs an administrator of all topics
and groups; `tests/console/test_routes.py` fails for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kavka.console.access.roles import Need, Role

_PUBLIC: Final = Need(Role.VIEWER, "public")
_LOOK: Final = Need(Role.VIEWER, "any")
_TOPIC: Final = Need(Role.VIEWER, "topic")
_GROUP: Final = Need(Role.VIEWER, "group")
_UNKNOWN: Final = Need(Role.ADMINISTRATOR, "cluster")

NEEDS: Final[Mapping[tuple[str, str], Need]] = {
    ("GET", "/assets"): _PUBLIC,
    ("GET", "/login"): _PUBLIC,
    ("POST", "/login"): _PUBLIC,
    ("GET", "/login/oidc"): _PUBLIC,
    ("GET", "/login/oidc/callback"): _PUBLIC,
    ("POST", "/logout"): _PUBLIC,
    ("GET", "/"): _LOOK,
    ("GET", "/api"): _LOOK,
    ("GET", "/openapi.json"): _LOOK,
    ("GET", "/brokers"): _LOOK,
    ("GET", "/brokers/{broker}"): _LOOK,
    ("GET", "/topics"): _LOOK,
    ("GET", "/topics/{topic}"): _TOPIC,
    ("GET", "/topics/{topic}/messages"): _TOPIC,
    ("GET", "/topics/{topic}/tail"): _TOPIC,
    ("GET", "/topics/{topic}/records/{partition}/{offset}"): _TOPIC,
    ("GET", "/topics/{topic}/records/{partition}/{offset}/value"): _TOPIC,
    ("GET", "/topics/{topic}/settings"): _TOPIC,
    ("POST", "/topics/{topic}/settings"): Need(Role.OPERATOR, "topic"),
    ("GET", "/topics/{topic}/delete"): Need(Role.ADMINISTRATOR, "topic"),
    ("POST", "/topics/{topic}/delete"): Need(Role.ADMINISTRATOR, "topic"),
    # The name is in the form: `scope.ScopedAdmin` compares it.
    ("GET", "/create-topic"): Need(Role.OPERATOR, "any"),
    ("POST", "/create-topic"): Need(Role.OPERATOR, "any"),
    ("GET", "/groups"): _LOOK,
    ("GET", "/group"): _GROUP,
    ("GET", "/group/reset"): Need(Role.OPERATOR, "group"),
    ("POST", "/group/reset"): Need(Role.OPERATOR, "group"),
}


def key_of(method: str, path: str) -> tuple[str, str]:
    """Return the row of a route: that of the page, for a path of the JSON API."""
    if path == "/api/overview":
        return method, "/"
    return method, path.removeprefix("/api") if path != "/api" else path


def need_of(method: str, path: str) -> Need:
    """Return the need of a route; its path has names in braces."""
    return NEEDS.get(key_of(method, path), _UNKNOWN)
