"""JSON Web Tokens without a signature (`"alg":"none"`): for tests, because any client can write one.

Source: RFC 7519, 6; Apache Kafka's `OAuthBearerUnsecuredJws` and its validator.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final

from kavka.values import frozen

_STRING: Final = "unsecuredLoginStringClaim_"
_NUMBER: Final = "unsecuredLoginNumberClaim_"
_LIST: Final = "unsecuredLoginListClaim_"
_EXTENSION: Final = "unsecuredLoginExtension_"
VALIDATOR: Final = "unsecuredValidator"
"""The prefix of the options by which a broker checks tokens."""
_SCOPE: Final = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")
_URL_SAFE: Final = str.maketrans("-_", "+/")
_LIFETIME_S: Final = 3600.0


class InvalidToken(ValueError):
    """A bearer token that is not accepted; `status` is that of RFC 6750. The message does not hold the token."""

    def __init__(
        self, reason: str, status: str = "invalid_token", scope: str | None = None
    ) -> None:
        """`scope` is the scope that was required."""
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


def librdkafka_options(text: str) -> dict[str, str]:
    """Return the options of a login module that mean the same as librdkafka's `sasl.oauthbearer.config`.

    `text` is `name=value` with blanks between; a scope is a list with commas. Raise ValueError for another name, and
    for a life that is no whole number of seconds above 0, as librdkafka does.
    """
    given = dict(item.partition("=")[::2] for item in text.split())
    principal = given.pop("principalClaimName", "sub")
    scope = given.pop("scopeClaimName", "scope")
    options = {
        "unsecuredLoginPrincipalClaimName": principal,
        f"{_STRING}{principal}": given.pop("principal", ""),
        "unsecuredLoginLifetimeSeconds": given.pop("lifeSeconds", "3600"),
    }
    if scopes := given.pop("scope", ""):
        options[f"{_LIST}{scope}"] = f",{scopes}"
    for name, value in given.items():
        if not name.startswith("extension_"):
            known = "principal, principalClaimName, scope, scopeClaimName, lifeSeconds and extension_<name>"
            raise ValueError(f"{name} is not known: there are {known}")
        options[f"{_EXTENSION}{name.removeprefix('extension_')}"] = value
    if not options[f"{_STRING}{principal}"]:
        raise ValueError("it has no principal=<user>")
    if re.fullmatch(r"0*[1-9][0-9]{0,8}", options["unsecuredLoginLifetimeSeconds"]) is None:
        raise ValueError("lifeSeconds is no whole number of seconds above 0")
    return options


def login_extensions(options: Mapping[str, str]) -> dict[str, str]:
    """Return the SASL extensions that the options ask for."""
    return {
        name.removeprefix(_EXTENSION): value
        for name, value in options.items()
        if name.startswith(_EXTENSION)
    }


@frozen
class UnsecuredRules:
    """The rules of Kafka's `OAuthBearerUnsecuredValidatorCallbackHandler`: options of the broker's login module."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    skew_ms: int = 0


def unsecured_rules(options: Mapping[str, str]) -> UnsecuredRules:
    """Return the rules of a login module's options. Raise ValueError, where Kafka would refuse each client."""

    def option(name: str) -> str:
        return options.get(f"{VALIDATOR}{name}", "").strip()

    required = tuple(filter(None, option("RequiredScope").split(" ")))
    for item in required:
        if _SCOPE.fullmatch(item) is None:
            raise ValueError(f"{VALIDATOR}RequiredScope has an item that is no scope (RFC 6749)")
    skew = option("AllowableClockSkewMs") or "0"
    if re.fullmatch(r"\+?[0-9]{1,9}", skew) is None:
        raise ValueError(f"{VALIDATOR}AllowableClockSkewMs is no number of milliseconds")
    return UnsecuredRules(
        option("PrincipalClaimName") or "sub",
        option("ScopeClaimName") or "scope",
        required,
        int(skew),
    )


def read_unsecured(token: str, rules: UnsecuredRules, now_ms: int) -> TokenOwner:
    """Return whose token it is. Raise InvalidToken.

    As in Apache Kafka, `nbf` is not looked at, a text is one scope however many words it has, and the scope that is
    reported as missing is all that is required. Refused is what Kafka accepts by chance: a user `null` or `true`, times
    beyond 2**53 seconds, JSON with more behind it.
    """
    header, claims, signature = _decode(token)
    if header.get("alg") != "none" or signature:
        raise InvalidToken("the token is signed, and this listener reads unsecured ones")
    scope = _unsecured_scope(claims.get(rules.scope_claim), rules.scope_claim)
    owner = _owner(claims, rules.principal_claim, now_ms, rules.skew_ms)
    _check_begin(claims, ("iat",), now_ms, rules.skew_ms)
    if "iat" in claims:
        if claims["iat"] is None:
            raise InvalidToken("the claim iat is null")
        if claims["exp"] <= claims["iat"]:
            raise InvalidToken("the token expires before it was issued")
    for required in rules.required_scope:
        if required not in scope:
            missing = f"[{', '.join(rules.required_scope)}]"
            raise InvalidToken(
                f"the token lacks the scope {required}", "insufficient_scope", missing
            )
    return TokenOwner(owner.user, owner.expires_ms, scope)


def owner_of_signed(
    claims: Mapping[str, Any], *, now_ms: int, skew_ms: int, principal_claim: str, scope_claim: str
) -> TokenOwner:
    """Return whose claims these are, if they hold now: those of a token whose signature holds. Raise InvalidToken.

    As in Apache Kafka no scope is required, but one that is there has no blank and no double items.
    """
    owner = _owner(claims, principal_claim, now_ms, skew_ms)
    _check_begin(claims, ("iat", "nbf"), now_ms, skew_ms)
    value = claims.get(scope_claim)
    items = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    scope = tuple(item.strip() if isinstance(item, str) else "" for item in items)
    if "" in scope or len(set(scope)) < len(scope):
        raise InvalidToken(f"the claim {scope_claim} has an item that is blank or there twice")
    return TokenOwner(owner.user.strip(), owner.expires_ms, scope)


def expiry_ms(token: str) -> int | None:
    """Return when a token ends by its claim `exp`, milliseconds since 1970; None where it says nothing of it.

    No signature is checked: this is for those who were given the token.
    """
    try:
        ends = _decode(token)[1].get("exp")
    except InvalidToken:
        return None  # opaque: only its issuer can read it
    return int(ends * 1000) if isinstance(ends, int | float) and _is_number(ends) else None


def _owner(
    claims: Mapping[str, Any], principal_claim: str, now_ms: int, skew_ms: int
) -> TokenOwner:
    user, expires = claims.get(principal_claim), claims.get("exp")
    if not isinstance(user, str) or not user.strip():
        raise InvalidToken(f"the token has no text in the claim {principal_claim}")
    if not _is_number(expires):
        raise InvalidToken("the token has no expiration time")
    assert isinstance(expires, int | float)
    if now_ms - skew_ms >= expires * 1000:
        raise InvalidToken("the token has expired")
    return TokenOwner(user, int(expires * 1000))


def _check_begin(
    claims: Mapping[str, Any], names: tuple[str, ...], now_ms: int, skew_ms: int
) -> None:
    for name in names:
        since = claims.get(name)
        if since is None:
            continue
        if not _is_number(since) or int(since * 1000) - skew_ms > now_ms:
            raise InvalidToken(f"the token is not valid yet ({name})")


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1 << 53


def _unsecured_scope(value: object, claim: str) -> tuple[str, ...]:
    if _is_number(value):
        raise InvalidToken(f"the claim {claim} is a number")
    items = value if isinstance(value, list) else [value if isinstance(value, str) else ""]
    texts = [item.strip() for item in items if isinstance(item, str)]
    return tuple(dict.fromkeys(filter(None, texts)))


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
        padded = text.rstrip("=")
        padded += "=" * (-len(padded) % 4)
        # As text: bytes would be taken for UTF-16 or UTF-32 as well, and may begin with a byte order mark.
        value = json.loads(b64decode(padded.translate(_URL_SAFE), validate=True).decode())
    except (ValueError, RecursionError):
        raise InvalidToken("a part of the token is not JSON in base64url") from None
    if not isinstance(value, dict):
        raise InvalidToken("a part of the token is not a JSON object")
    return value
