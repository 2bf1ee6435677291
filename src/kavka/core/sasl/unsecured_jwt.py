"""JSON Web Tokens without a signature (`"alg":"none"`): for tests, because any client can write one.

Source: RFC 7519, 6; Apache Kafka's `OAuthBearerUnsecuredJws` and its validator.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final

from kavka.values import frozen

_STRING: Final = "unsecuredLoginStringClaim_"
_NUMBER: Final = "unsecuredLoginNumberClaim_"
_LIST: Final = "unsecuredLoginListClaim_"
_EXTENSION: Final = "unsecuredLoginExtension_"
_LIFETIME_S: Final = 3600.0


class InvalidToken(ValueError):
    """A bearer token that is not accepted; `status` is that of RFC 6750. The message does not hold the token."""

    def __init__(
        self, reason: str, status: str = "invalid_token", scope: str | None = None
    ) -> None:
        """`scope` is the scope that was missing."""
        super().__init__(reason)
        self.status = status
        self.scope = scope


@frozen
class TokenOwner:
    """The owner of a token, and the end of its life in milliseconds since 1970."""

    user: str
    expires_ms: int
    scope: tuple[str, ...] = ()


def encode_unsecured(claims: Mapping[str, Any]) -> str:
    """Return a token with these claims."""
    return f"{_encode({'alg': 'none'})}.{_encode(claims)}."


def login_claims(options: Mapping[str, str], now_ms: int) -> dict[str, Any]:
    """Return the claims that the options of an OAuthBearerLoginModule ask for. Raise ValueError."""
    lifetime_s = float(options.get("unsecuredLoginLifetimeSeconds", _LIFETIME_S))
    claims: dict[str, Any] = {"iat": now_ms / 1000, "exp": now_ms / 1000 + lifetime_s}
    for name, value in options.items():
        if name.startswith(_STRING):
            claims[name.removeprefix(_STRING)] = value
        elif name.startswith(_NUMBER):
            claims[name.removeprefix(_NUMBER)] = float(value)
        elif name.startswith(_LIST) and value:
            claims[name.removeprefix(_LIST)] = value[1:].split(value[0]) if len(value) > 1 else []
    principal = options.get("unsecuredLoginPrincipalClaimName", "sub")
    if not claims.get(principal):
        raise ValueError(f"the options give no claim {principal}: set {_STRING}{principal}")
    return claims


def login_extensions(options: Mapping[str, str]) -> dict[str, str]:
    """Return the SASL extensions that the options ask for."""
    return {
        name.removeprefix(_EXTENSION): value
        for name, value in options.items()
        if name.startswith(_EXTENSION)
    }


def read_unsecured(token: str, options: Mapping[str, str], now_ms: int) -> TokenOwner:
    """Return whose token it is by the options of the broker's login module. Raise InvalidToken."""
    header, claims, signature = _decode(token)
    if header.get("alg") != "none" or signature:
        raise InvalidToken("the token is signed, and this listener reads unsecured ones")
    skew_ms = int(options.get("unsecuredValidatorAllowableClockSkewMs", "0"))
    return owner_of(
        claims,
        now_ms=now_ms,
        skew_ms=skew_ms,
        principal_claim=options.get("unsecuredValidatorPrincipalClaimName", "sub"),
        scope_claim=options.get("unsecuredValidatorScopeClaimName", "scope"),
        required_scope=options.get("unsecuredValidatorRequiredScope", "").split(),
    )


def owner_of(
    claims: Mapping[str, Any],
    *,
    now_ms: int,
    skew_ms: int,
    principal_claim: str,
    scope_claim: str,
    required_scope: list[str],
) -> TokenOwner:
    """Return whose claims these are, if they hold now. Raise InvalidToken."""
    user, expires = claims.get(principal_claim), claims.get("exp")
    if not isinstance(user, str) or not user:
        raise InvalidToken(f"the token has no text in the claim {principal_claim}")
    if not _is_number(expires):
        raise InvalidToken("the token has no expiration time")
    assert isinstance(expires, int | float)
    if expires * 1000 + skew_ms < now_ms:
        raise InvalidToken("the token has expired")
    for name in ("iat", "nbf"):
        since = claims.get(name)
        if since is None:
            continue
        if not _is_number(since) or int(since * 1000) - skew_ms > now_ms:
            raise InvalidToken(f"the token is not valid yet ({name})")
    scope = _scope(claims.get(scope_claim))
    for required in required_scope:
        if required not in scope:
            raise InvalidToken(
                f"the token lacks the scope {required}", "insufficient_scope", required
            )
    return TokenOwner(user, int(expires * 1000), scope)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1 << 53


def _scope(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.split())
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _encode(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, separators=(",", ":")).encode()
    return urlsafe_b64encode(text).decode().rstrip("=")


def _decode(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    parts = token.split(".")
    if len(parts) != 3:
        raise InvalidToken(f"the token has {len(parts)} parts, not 3")
    return _part(parts[0]), _part(parts[1]), parts[2]


def _part(text: str) -> dict[str, Any]:
    try:
        value = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError):
        raise InvalidToken("a part of the token is not JSON in base64url") from None
    if not isinstance(value, dict):
        raise InvalidToken("a part of the token is not a JSON object")
    return value
