"""Login with an OpenID provider: authorization code with PKCE, state and nonce.

Sources: OpenID Connect Core 1.0, RFC 7636 (PKCE), RFC 9207 (the issuer in answers).
Needs authlib, joserfc and requests. Their calls block, so `Provider` is used on threads: a login is rare.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import requests
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.requests_client import OAuth2Session
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from kavka.console.access.config import Oidc, require_safe_url

_ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
"""Signatures by key pairs; neither `none` nor codes with a shared secret."""
_TIMEOUT_S: Final = 10
_KEPT_S: Final = 3600.0
_KEYS_AGAIN_S: Final = 10.0
_SKEW_S: Final = 60
_MOST_PENDING: Final = 2_000
_PENDING_S: Final = 600.0


class LoginFailed(Exception):
    """A login with the provider did not succeed; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A login that has begun: what its end is compared with, and the page to show then."""

    state: str
    nonce: str
    verifier: str
    target: str
    redirect_uri: str
    began_s: float


class PendingLogins:
    """Logins that have begun, by an id that only the browser has. Pure."""

    def __init__(self) -> None:
        """Begin without any."""
        self._pending: OrderedDict[str, Pending] = OrderedDict()

    def begin(self, target: str, redirect_uri: str, now_s: float) -> tuple[str, Pending]:
        """Return the id for the browser's cookie, and the secrets of a login."""
        made = Pending(
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(48),
            target,
            redirect_uri,
            now_s,
        )
        number = secrets.token_urlsafe(32)
        self._pending[number] = made
        if len(self._pending) > _MOST_PENDING:
            self._pending.popitem(last=False)
        return number, made

    def take(self, number: str, state: str, now_s: float) -> Pending:
        """Return a login, once. Raise LoginFailed for one that this browser has not begun."""
        found = self._pending.pop(number, None)
        if found is None or now_s - found.began_s > _PENDING_S:
            raise LoginFailed(
                "This browser has not begun a login here, or more than ten minutes ago"
            )
        if not secrets.compare_digest(found.state.encode(), state.encode()):
            raise LoginFailed("The answer belongs to another login (state)")
        return found


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as the provider names it, and the values that grants may name."""

    name: str
    claims: tuple[str, ...]


class Provider:
    """The provider of one console."""

    def __init__(self, config: Oidc) -> None:
        """Take the configuration; nothing is asked yet."""
        self._config = config
        self._metadata: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, KeySet] | None = None

    def address(self, pending: Pending) -> str:
        """Return the provider's address that a login begins at. Raise LoginFailed."""
        with self._session(pending) as session:
            address, _ = session.create_authorization_url(
                self._endpoint("authorization_endpoint"),
                state=pending.state,
                nonce=pending.nonce,
                code_verifier=pending.verifier,
            )
        return str(address)

    def identity(self, pending: Pending, answer: Mapping[str, str]) -> Identity:
        """Return the user of a response that the browser has brought. Raise LoginFailed."""
        if "error" in answer:
            raise LoginFailed(f"The provider refused: {answer['error'][:100]}")
        if "iss" in answer and answer["iss"] != self._config.issuer:
            raise LoginFailed("The answer comes from another provider (iss)")
        token = self._token(pending, answer.get("code", ""))
        claims = self._checked(str(token.get("id_token", "")), pending.nonce)
        return identity_of(self._with_userinfo(claims, token), self._config)

    def _session(self, pending: Pending) -> OAuth2Session:
        methods = self._read_metadata().get("token_endpoint_auth_methods_supported")
        method = "client_secret_basic"
        if not self._config.client_secret:
            method = "none"
        elif methods and method not in methods:
            method = "client_secret_post"
        return OAuth2Session(
            self._config.client_id,
            self._config.client_secret or None,
            token_endpoint_auth_method=method,
            scope=" ".join(self._config.scopes),
            redirect_uri=pending.redirect_uri,
            code_challenge_method="S256",
            default_timeout=_TIMEOUT_S,
        )

    def _token(self, pending: Pending, code: str) -> Mapping[str, Any]:
        with self._session(pending) as session:
            try:
                token: Mapping[str, Any] = session.fetch_token(
                    self._endpoint("token_endpoint"),
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=pending.verifier,
                    allow_redirects=False,
                )
            except AuthlibBaseError as error:
                raise LoginFailed(f"The provider gives no token: {error.error}") from error
            except (requests.RequestException, ValueError) as error:
                raise LoginFailed(f"The provider gives no token: {type(error).__name__}") from error
        return token

    def _checked(self, token: str, nonce: str) -> dict[str, Any]:
        try:
            try:
                decoded = jwt.decode(token, self._read_keys(), algorithms=_ALGORITHMS)
            except (JoseError, ValueError):
                # The provider may have another key since.
                decoded = jwt.decode(token, self._read_keys(again=True), algorithms=_ALGORITHMS)
        except (JoseError, ValueError) as error:
            raise LoginFailed(f"The ID token is not valid: {error}") from error
        return checked_claims(decoded.claims, self._config, nonce, int(time.time()))

    def _with_userinfo(self, claims: dict[str, Any], token: Mapping[str, Any]) -> dict[str, Any]:
        """Return claims with those of the userinfo endpoint, where the ID token has not the one for grants."""
        endpoint = self._read_metadata().get("userinfo_endpoint")
        if _value_at(claims, self._config.claim) is not None or not endpoint:
            return claims
        require_safe_url(endpoint, "userinfo_endpoint")
        found = self._get(endpoint, {"Authorization": f"Bearer {token.get('access_token', '')}"})
        if found.get("sub") != claims["sub"]:
            raise LoginFailed("The provider's userinfo is about another user (sub)")
        return {**found, **claims}

    def _endpoint(self, name: str) -> str:
        url = str(self._read_metadata().get(name, ""))
        try:
            require_safe_url(url, name)
        except ValueError as error:
            raise LoginFailed(f"The provider's {error}") from None
        return url

    def _read_metadata(self) -> dict[str, Any]:
        if self._metadata is None or time.monotonic() - self._metadata[0] > _KEPT_S:
            base = self._config.issuer.rstrip("/")
            found = self._get(f"{base}/.well-known/openid-configuration", {})
            if found.get("issuer") != self._config.issuer:
                raise LoginFailed(
                    f"The provider calls itself {found.get('issuer')!r}, and oidc.issuer is {self._config.issuer!r}"
                )
            self._metadata = time.monotonic(), found
        return self._metadata[1]

    def _read_keys(self, *, again: bool = False) -> KeySet:
        now_s = time.monotonic()
        age_s = now_s - self._keys[0] if self._keys else _KEPT_S + 1
        if self._keys is None or age_s > (_KEYS_AGAIN_S if again else _KEPT_S):
            found = self._get(self._endpoint("jwks_uri"), {})
            self._keys = now_s, KeySet.import_key_set({"keys": signing_keys(found)})
        return self._keys[1]

    def _get(self, url: str, headers: dict[str, str]) -> dict[str, Any]:
        try:
            answer = requests.get(url, headers=headers, timeout=_TIMEOUT_S, allow_redirects=False)
            found = answer.json() if answer.status_code == 200 else None
        except (requests.RequestException, ValueError) as error:
            raise LoginFailed(
                f"The provider does not answer at {url}: {type(error).__name__}"
            ) from error
        if not isinstance(found, dict):
            raise LoginFailed(f"The provider answers {answer.status_code} at {url}")
        return found


def signing_keys(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the keys of a set that sign: public ones of key pairs."""
    keys = found.get("keys")
    return [
        key
        for key in (keys if isinstance(keys, list) else [])
        if isinstance(key, dict)
        and key.get("kty") in ("RSA", "EC", "OKP")
        and key.get("use") != "enc"
    ]


def checked_claims(
    claims: Mapping[str, Any], config: Oidc, nonce: str, now_s: int
) -> dict[str, Any]:
    """Return the claims of an ID token whose signature is right, compared as OpenID Connect Core 3.1.3.7 says.

    Raise LoginFailed.
    """
    registry = jwt.JWTClaimsRegistry(
        now=now_s,
        leeway=_SKEW_S,
        iss={"essential": True, "value": config.issuer},
        aud={"essential": True, "value": config.client_id},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
    )
    try:
        registry.validate(dict(claims))
    except (JoseError, ValueError) as error:
        raise LoginFailed(f"The ID token is not for this login: {error}") from error
    audience = claims["aud"]
    if isinstance(audience, list) and len(audience) > 1 and claims.get("azp") != config.client_id:
        raise LoginFailed("The ID token is not for this login: azp")
    given = claims.get("nonce")
    if not isinstance(given, str) or not secrets.compare_digest(given.encode(), nonce.encode()):
        raise LoginFailed("The ID token is not for this login: nonce")
    return dict(claims)


def identity_of(claims: Mapping[str, Any], config: Oidc) -> Identity:
    """Return the user of claims: its name, and the values of the claim that grants name."""
    name = claims.get(config.name_claim) or claims["sub"]
    value = _value_at(claims, config.claim)
    values = value if isinstance(value, list) else [value]
    return Identity(str(name), tuple(one for one in values if isinstance(one, str) and one))


def _value_at(claims: Mapping[str, Any], path: str) -> Any:
    if path in claims:  # names of claims may have dots, as addresses do
        return claims[path]
    value: Any = claims
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
