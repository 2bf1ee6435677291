"""The file of `--access`: users, grants, masks and the OpenID provider, in TOML. Pure but for `read_access`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from kavka.console.access.masks import Mask, mask_of
from kavka.console.access.roles import ROLES, Grant

_MINUTE_S: Final = 60


class BadAccess(ValueError):
    """The file of `--access` cannot be used; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Oidc:
    """The OpenID provider that users log in with."""

    issuer: str
    client_id: str
    client_secret: str = ""
    """Empty for a public client."""
    scopes: tuple[str, ...] = ("openid",)
    claim: str = "groups"
    """The claim whose values grants name: a text, or a list of them. Dots go into objects: `realm_access.roles`."""
    name_claim: str = "preferred_username"
    label: str = "single sign-on"


@dataclass(frozen=True, slots=True)
class AccessRule:
    """A grant, and to whom: local users by name, users of the provider by values of the claim."""

    grant: Grant
    users: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Access:
    """The access to a console; without users and provider there is no login."""

    users_file: str = ""
    oidc: Oidc | None = None
    rules: tuple[AccessRule, ...] = ()
    masks: tuple[Mask, ...] = ()
    read_only: bool = False
    idle_s: int = 30 * _MINUTE_S
    """A session ends after this time without a request of its user."""
    absolute_s: int = 12 * 60 * _MINUTE_S
    """A session ends after this time, whatever its user does."""

    @property
    def has_login(self) -> bool:
        """Return whether users have to log in."""
        return bool(self.users_file) or self.oidc is not None

    def grants_of(self, user: str = "", claims: Sequence[str] = ()) -> tuple[Grant, ...]:
        """Return the grants of a local user, or of a user of the provider with these values of the claim."""
        return tuple(
            rule.grant
            for rule in self.rules
            if (user and user in rule.users) or not set(claims).isdisjoint(rule.claims)
        )


def read_access(path: str) -> Access:
    """Read the file; names of files in it are relative to it. Raise BadAccess."""
    try:
        given = tomllib.loads(Path(path).read_text("utf-8"))
        return access_of(given, Path(path).parent)
    except OSError as error:
        raise BadAccess(f"--access {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError) as error:
        raise BadAccess(f"--access {path}: {error}") from None


_TOP: Final = {
    "users-file": str,
    "read-only": bool,
    "idle-minutes": int,
    "absolute-hours": int,
    "oidc": dict,
    "grants": list,
    "masks": list,
}
_GRANT: Final = {"role": str, "users": list, "claims": list, "topics": list, "groups": list}
_OIDC: Final = {
    "issuer": str,
    "client-id": str,
    "client-secret-file": str,
    "scopes": list,
    "claim": str,
    "name-claim": str,
    "label": str,
}
_MASK: Final = {
    "topics": list,
    "field": str,
    "header": str,
    "pattern": str,
    "key": bool,
    "value": bool,
    "replacement": str,
    "unmasked-for": str,
}


def access_of(given: Mapping[str, Any], directory: Path) -> Access:
    """Return the access of a parsed file. Raise ValueError, with a sentence; OSError for the file of the secret."""
    _check(given, _TOP, "the file")
    idle: int = given.get("idle-minutes", 30)
    absolute: int = given.get("absolute-hours", 12)
    if idle < 1 or absolute < 1:
        raise ValueError("idle-minutes and absolute-hours are at least 1")
    users_file = given.get("users-file", "")
    access = Access(
        users_file=str(directory / users_file) if users_file else "",
        oidc=_oidc(given["oidc"], directory) if "oidc" in given else None,
        rules=tuple(_rule(one, number) for number, one in enumerate(given.get("grants", []), 1)),
        masks=tuple(_mask(one, number) for number, one in enumerate(given.get("masks", []), 1)),
        read_only=given.get("read-only", False),
        idle_s=idle * _MINUTE_S,
        absolute_s=absolute * 60 * _MINUTE_S,
    )
    if access.has_login and not access.rules:
        raise ValueError("there is a login and no [[grants]]: no user could see anything")
    if access.rules and not access.has_login:
        raise ValueError("there are [[grants]] and no login: name a users-file, or [oidc]")
    return access


def _check(given: Mapping[str, Any], known: Mapping[str, type], where: str) -> None:
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"{where} has {name!r}, which is none of: {', '.join(known)}")
        kind = known[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ValueError(f"{name} of {where} is {value!r}, not of the type {kind.__name__}")
        if isinstance(value, list) and name not in ("grants", "masks"):
            wrong = [one for one in value if not isinstance(one, str)]
            if wrong:
                raise ValueError(f"{name} of {where} has {wrong[0]!r}, which is no text")


def _tables(given: Any, known: Mapping[str, type], where: str) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise ValueError(f"{where} is no table")
    _check(given, known, where)
    return given


def _rule(given: Any, number: int) -> AccessRule:
    where = f"grant {number}"
    table = _tables(given, _GRANT, where)
    role = table.get("role", "")
    if role not in ROLES:
        raise ValueError(f"role of {where} is {role!r}: it is one of {', '.join(ROLES)}")
    users, claims = tuple(table.get("users", ())), tuple(table.get("claims", ()))
    if not users and not claims:
        raise ValueError(f"{where} names neither users nor claims")
    topics = tuple(table.get("topics", [""]))
    groups = tuple(table.get("groups", topics))
    return AccessRule(Grant(ROLES[role], topics, groups), users, claims)


def _mask(given: Any, number: int) -> Mask:
    where = f"mask {number}"
    try:
        return mask_of(_tables(given, _MASK, where))
    except ValueError as error:
        sentence = str(error)
        raise ValueError(sentence if where in sentence else f"{where}: {sentence}") from None


def _oidc(given: Any, directory: Path) -> Oidc:
    table = _tables(given, _OIDC, "oidc")
    for name in ("issuer", "client-id"):
        if not table.get(name):
            raise ValueError(f"oidc has no {name}")
    require_safe_url(table["issuer"], "issuer of oidc")
    secret = ""
    if "client-secret-file" in table:
        secret = (directory / table["client-secret-file"]).read_text("utf-8").strip()
    scopes = tuple(table.get("scopes", ["openid", "profile"]))
    return Oidc(
        issuer=table["issuer"],
        client_id=table["client-id"],
        client_secret=secret,
        scopes=scopes if "openid" in scopes else ("openid", *scopes),
        claim=table.get("claim", "groups"),
        name_claim=table.get("name-claim", "preferred_username"),
        label=table.get("label", "single sign-on"),
    )


def require_safe_url(url: str, what: str) -> None:
    """Raise ValueError for an address that is neither https nor on this machine's loopback."""
    parts = urlsplit(url)
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and is_local)):
        raise ValueError(f"{what} is {url!r}: it begins with https://")
