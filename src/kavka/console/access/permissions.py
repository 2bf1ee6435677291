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
_OPERATE: Final = Need(Role.OPERATOR, "topic")
_LOOK_AT_ALL: Final = Need(Role.VIEWER, "cluster")
_OPERATE_ALL: Final = Need(Role.OPERATOR, "cluster")
_ADMINISTER: Final = Need(Role.ADMINISTRATOR, "cluster")
_UNKNOWN: Final = Need(Role.ADMINISTRATOR, "cluster")


def _both(path: str, need: Need) -> dict[tuple[str, str], Need]:
    """Return the rows of a form and of its action."""
    return {("GET", path): need, ("POST", path): need}


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
    # With the role in all topics of which the group has offsets: `scope.ScopedAdmin` compares them.
    **_both("/group/delete", Need(Role.ADMINISTRATOR, "group")),
    ("GET", "/topics/{topic}/export"): _TOPIC,
    ("GET", "/topics/{topic}/partitions"): _OPERATE,
    ("POST", "/topics/{topic}/partitions"): _OPERATE,
    ("GET", "/topics/{topic}/produce"): _OPERATE,
    ("POST", "/topics/{topic}/produce"): _OPERATE,
    ("GET", "/topics/{topic}/records/{partition}/{offset}/copy"): _OPERATE,
    ("POST", "/topics/{topic}/records/{partition}/{offset}/copy"): _OPERATE,
    # The kind and the name are parameters: `scope.ScopedRecorder` compares them.
    ("GET", "/history"): _LOOK,
    ("GET", "/alerts"): _LOOK_AT_ALL,
    ("GET", "/alerts/rules"): _LOOK_AT_ALL,
    ("GET", "/alerts/history"): _LOOK_AT_ALL,
    ("GET", "/moves"): _LOOK_AT_ALL,
    ("GET", "/transactions"): _LOOK_AT_ALL,
    ("GET", "/transaction"): _LOOK_AT_ALL,
    ("GET", "/acls"): _LOOK_AT_ALL,
    ("GET", "/users"): _LOOK_AT_ALL,
    ("GET", "/quotas"): _LOOK_AT_ALL,
    ("GET", "/schemas"): _LOOK_AT_ALL,
    ("GET", "/schema"): _LOOK_AT_ALL,
    ("GET", "/pipelines"): _LOOK_AT_ALL,
    **_both("/alerts/silence", _OPERATE_ALL),
    **_both("/alerts/end-silence", _OPERATE_ALL),
    **_both("/alerts/test", _OPERATE_ALL),
    **_both("/reassign", _OPERATE_ALL),
    **_both("/elect", _OPERATE_ALL),
    **_both("/schema/new", _OPERATE_ALL),
    ("POST", "/moves"): _OPERATE_ALL,
    ("GET", "/transactions/hanging"): _OPERATE_ALL,
    ("POST", "/transaction"): _ADMINISTER,
    ("POST", "/schema"): _ADMINISTER,
    **_both("/transactions/abort", _ADMINISTER),
    **_both("/brokers/{broker}/settings", _ADMINISTER),
    **_both("/alerts/rule", _ADMINISTER),
    **_both("/alerts/rule/delete", _ADMINISTER),
    **_both("/acls/new", _ADMINISTER),
    **_both("/acls/remove", _ADMINISTER),
    **_both("/users/password", _ADMINISTER),
    **_both("/users/remove", _ADMINISTER),
    **_both("/quotas/change", _ADMINISTER),
    # A statement reads every topic, and past the masks: `pages.sql` asks for a user for whom none holds.
    ("GET", "/sql"): _ADMINISTER,
    ("GET", "/audit"): _ADMINISTER,
}


def key_of(method: str, path: str) -> tuple[str, str]:
    """Return the row of a route: that of the page, for a path of the JSON API."""
    if path == "/api/overview":
        return method, "/"
    return method, path.removeprefix("/api") if path != "/api" else path


def need_of(method: str, path: str) -> Need:
    """Return the need of a route; its path has names in braces."""
    return NEEDS.get(key_of(method, path), _UNKNOWN)
