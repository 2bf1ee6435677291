"""Signed bearer tokens (RFC 7519), checked by the keys that their issuer publishes (RFC 7517). Needs `kavka[oauth]`.

The keys are read at the first token, when they are old, and when a token names a key that is not known, though not
more often than every ten seconds: any client may send a token. After an error they are read again sooner
(`sasl.oauthbearer.jwks.endpoint.retry.backoff.ms`). Only signatures by key pairs are accepted.
"""

from __future__ import annotations

import asyncio
import json
import logging
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final
from urllib.request import HTTPRedirectHandler, Request, build_opener

from kavka.broker.configs.listener_settings import ListenerSettings
from kavka.core.sasl.exchange import CheckToken, Failure, Question, Success
from kavka.core.sasl.oauthbearer import OAUTHBEARER, refusal_of
from kavka.core.sasl.unsecured_jwt import InvalidToken, TokenOwner, owner_of_signed
from kavka.io import Clock
from kavka.settings.declaration import InvalidSetting

if TYPE_CHECKING:
    from jwt import PyJWK

log = logging.getLogger(__name__)

_ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_SCHEMES: Final = ("http://", "https://", "file:")
_MIN_INTERVAL_MS: Final = 10_000
_TIMEOUT_S: Final = 10
_MAX_BYTES: Final = 1 << 20


def signed_token_check(settings: ListenerSettings, url: str, clock: Clock) -> SignedTokenCheck:
    """Return the check of a listener. Raise InvalidSetting, also where the extra is not installed."""
    if not url.startswith(_SCHEMES):
        raise InvalidSetting(_URL, url, "Expected an http, https or file URL")
    try:
        import jwt  # noqa: F401  # each check needs it
    except ImportError as error:
        reason = "signed tokens need an extra: pip install 'kavka[oauth]'"
        raise InvalidSetting(_URL, url, reason) from error
    if url.startswith("http:"):
        log.warning("keys of the issuer of tokens are read without TLS url=%s", url)
    return SignedTokenCheck(settings, url, clock)


class SignedTokenCheck:
    """Answers whose a token is."""

    def __init__(self, settings: ListenerSettings, url: str, clock: Clock) -> None:
        """Read no key yet."""
        self._url = url
        self._clock = clock

        def text(name: str) -> str | None:
            return settings.optional(name, OAUTHBEARER)

        self._issuer = text("sasl.oauthbearer.expected.issuer")
        self._audience = settings.items("sasl.oauthbearer.expected.audience", OAUTHBEARER)
        self._sub_claim = text("sasl.oauthbearer.sub.claim.name") or "sub"
        self._scope_claim = text("sasl.oauthbearer.scope.claim.name") or "scope"
        self._skew_s = settings.integer("sasl.oauthbearer.clock.skew.seconds", OAUTHBEARER)
        self._refresh_ms = settings.integer(
            "sasl.oauthbearer.jwks.endpoint.refresh.ms", OAUTHBEARER
        )
        self._backoff_ms = settings.integer(
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", OAUTHBEARER
        )
        self._max_backoff_ms = settings.integer(
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", OAUTHBEARER
        )
        self._keys: dict[str | None, PyJWK] = {}
        self._read_ms: int | None = None  # when the keys were read last
        self._tried_ms = 0
        self._failures = 0  # since then
        self._reading = asyncio.Lock()

    async def __call__(self, question: Question) -> Success | Failure:
        """Return whose token it is."""
        assert isinstance(question, CheckToken)
        try:
            owner = await self._owner(question.token)
        except InvalidToken as error:
            return refusal_of(error)
        return Success(owner.user, expires_ms=owner.expires_ms)

    async def _owner(self, token: str) -> TokenOwner:
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in _ALGORITHMS:
                raise InvalidToken("the token is not signed by a key pair")
            key = await self._key(header.get("kid"))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(_ALGORITHMS),
                audience=self._audience or None,
                issuer=self._issuer,
                leeway=self._skew_s,
                options={"verify_aud": bool(self._audience), "require": ["exp", "iat"]},
            )
        except (jwt.InvalidTokenError, RecursionError) as error:
            raise InvalidToken(f"the token does not hold: {error}") from None
        return owner_of_signed(
            claims,
            now_ms=self._clock.now_ms(),
            skew_ms=self._skew_s * 1000,
            principal_claim=self._sub_claim,
            scope_claim=self._scope_claim,
        )

    async def _key(self, kid: str | None) -> PyJWK:
        if self._must_read(kid, 0):  # tokens of known keys do not wait for what others cause
            async with self._reading:
                if self._must_read(kid, _MIN_INTERVAL_MS):
                    await self._read()
        key = self._keys.get(kid)
        if key is None and kid is None and len(self._keys) == 1:
            (key,) = self._keys.values()
        if key is None:
            raise InvalidToken("the token is signed by a key that its issuer does not publish")
        return key

    def _must_read(self, kid: str | None, least_ms: int) -> bool:
        """Return whether the keys are old, or this one is not known and they are at least `least_ms` old."""
        now_ms = self._clock.tick_ms()
        is_old = self._read_ms is None or now_ms - self._read_ms >= self._refresh_ms
        if not is_old and kid in self._keys:
            return False
        if self._failures:
            # After the eighth failure of the default settings it is the longest time.
            doublings = min(self._failures - 1, 62)
            least_ms = min(self._backoff_ms << doublings, self._max_backoff_ms)
        elif is_old:
            return True
        return now_ms - self._tried_ms >= least_ms

    async def _read(self) -> None:
        """Read the keys; those that were known stay when they cannot be read."""
        import jwt

        self._tried_ms = self._clock.tick_ms()
        try:
            text = await asyncio.to_thread(_get, self._url)
            read = jwt.PyJWKSet.from_dict(json.loads(text)).keys
        except (OSError, ValueError, AttributeError, RecursionError, jwt.PyJWTError) as error:
            self._failures += 1
            log.error("keys of the issuer of tokens not read url=%s reason=%s", self._url, error)
            return
        self._read_ms, self._failures = self._tried_ms, 0
        # A secret in the set would be public: its readers could sign with it. Others are not for signatures.
        self._keys = {
            key.key_id: key
            for key in read
            if key.algorithm_name in _ALGORITHMS and key.public_key_use in (None, "sig")
        }


class SafeRedirects(HTTPRedirectHandler):
    """Follows to another address, but from none with TLS to one without."""

    def redirect_request(self, req: Request, *given: Any) -> Request | None:
        """Return the request to the other address. Raise OSError."""
        target = super().redirect_request(req, *given)
        if target is not None and req.type == "https" != target.type:
            raise OSError(f"it redirects to an address without TLS: {target.full_url}")
        return target


def _get(url: str) -> bytes:
    """Return what an address holds. Raise OSError."""
    # The scheme was checked at the start.
    try:
        with build_opener(SafeRedirects).open(url, timeout=_TIMEOUT_S) as response:
            data: bytes = response.read(_MAX_BYTES)
    except HTTPException as error:
        raise OSError(f"the response is not HTTP: {error!r}") from error
    return data
