"""Bearer tokens for OAUTHBEARER: from a callable, from a token endpoint, or without a signature for tests.

A token serves all connections until 80% of its life are over; then the next connection gets another.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

from kavka.client.config import Config
from kavka.core.sasl.exchange import ClientExchange, SaslError
from kavka.core.sasl.oauthbearer import OAUTHBEARER, OAuthBearerClient
from kavka.core.sasl.unsecured_jwt import (
    encode_unsecured,
    librdkafka_options,
    login_claims,
    login_extensions,
)
from kavka.io import Clock, Random
from kavka.net.sasl_login import MechanismLogin
from kavka.settings.declaration import InvalidSetting
from kavka.values import frozen

_SHARE: Final = 0.8
_MAX_BYTES: Final = 1 << 20
_CALLBACK: Final = "sasl.login.callback.handler.class"
_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_JAVA_HANDLERS: Final = "OAuthBearerLoginCallbackHandler"
"""The name of Kafka's classes that ask a token endpoint, as this client does by itself."""


@frozen
class BearerToken:
    """A token and the end of its life, milliseconds since 1970. Its text does not show it."""

    text: str
    expires_ms: int

    def __repr__(self) -> str:
        """Show the end only."""
        return f"BearerToken(expires_ms={self.expires_ms})"


Source = Callable[[], Awaitable[BearerToken]]
"""Gets a token. Raises SaslError or OSError."""


def bearer_login(
    config: Config, options: Mapping[str, str], clock: Clock, random: Random
) -> MechanismLogin:
    """Return the login of the settings. Raise InvalidSetting, which shows no secret."""
    options = {**options, **_of_librdkafka(config)}
    source = _source(config, options, clock)
    extensions = {
        **{
            name.removeprefix("extension_"): value
            for name, value in options.items()
            if name.startswith("extension_")
        },
        **login_extensions(options),
        **_pairs(config.optional_text("sasl.oauthbearer.extensions") or ""),
    }
    cached: BearerToken | None = None
    fresh_until_ms = 0

    async def begin() -> ClientExchange:
        nonlocal cached, fresh_until_ms
        now_ms = clock.now_ms()
        if cached is None or now_ms >= fresh_until_ms:
            cached = await source()
            fresh_until_ms = now_ms + int(_SHARE * (cached.expires_ms - now_ms))
        return OAuthBearerClient(cached.text, extensions)

    return MechanismLogin(OAUTHBEARER, begin, random)


def _source(config: Config, options: Mapping[str, str], clock: Clock) -> Source:
    callback = _callback(config)
    if callback is not None:
        return _from_callable(_loaded(callback), clock)
    url = config.optional_text(_ENDPOINT)
    if url is not None:
        return _from_endpoint(config, options, url, clock)
    if any(name.startswith("unsecuredLogin") for name in options):
        return _unsecured(options, clock)
    reason = (
        "OAUTHBEARER needs it; or a callable that returns tokens, as "
        f"{_CALLBACK}; or, for tests, unsecuredLoginStringClaim_sub in sasl.jaas.config"
    )
    raise InvalidSetting(_ENDPOINT, None, reason)


def _callback(config: Config) -> Any:
    callback = config.value(_CALLBACK)
    is_java = isinstance(callback, str) and callback.endswith(_JAVA_HANDLERS)
    return None if is_java else callback


# Without a signature


def _of_librdkafka(config: Config) -> dict[str, str]:
    """Return the options of tokens without a signature, unless a callback or an endpoint gives tokens."""
    has_source = _callback(config) is not None or config.optional_text(_ENDPOINT) is not None
    if has_source or not config.flag("enable.sasl.oauthbearer.unsecure.jwt"):
        return {}
    text = config.optional_text("sasl.oauthbearer.config") or ""
    try:
        return librdkafka_options(text)
    except ValueError as error:
        raise InvalidSetting("sasl.oauthbearer.config", text, str(error)) from None


def _unsecured(options: Mapping[str, str], clock: Clock) -> Source:
    try:
        login_claims(options, clock.now_ms())
    except ValueError as error:
        raise InvalidSetting("sasl.jaas.config", "[hidden]", str(error)) from None

    async def make() -> BearerToken:
        claims = login_claims(options, clock.now_ms())
        return BearerToken(encode_unsecured(claims), int(claims["exp"] * 1000))

    return make


# From a callable


def _loaded(callback: Any) -> Callable[[], Any]:
    if isinstance(callback, str):
        module, colon, name = callback.partition(":")
        try:
            callback = getattr(importlib.import_module(module), name) if colon else None
        except (ImportError, AttributeError) as error:
            raise InvalidSetting(_CALLBACK, callback, str(error)) from error
    if not callable(callback):
        reason = "Give a callable, or module:name of one, that returns (token, expiry in ms)"
        raise InvalidSetting(_CALLBACK, callback, reason)
    called: Callable[[], Any] = callback
    return called


def _from_callable(callback: Callable[[], Any], clock: Clock) -> Source:
    async def ask() -> BearerToken:
        try:
            if inspect.iscoroutinefunction(callback):
                given = await callback()
            else:
                given = await asyncio.to_thread(callback)
            text, expires_ms = given
            return BearerToken(str(text), int(expires_ms))
        except Exception as error:
            raise SaslError(
                f"the callback gave no token: {type(error).__name__}: {error}"
            ) from error

    return ask


# From a token endpoint


def _from_endpoint(config: Config, options: Mapping[str, str], url: str, clock: Clock) -> Source:
    if not url.startswith(("http://", "https://")):
        raise InvalidSetting(_ENDPOINT, url, "Expected an http or https URL")
    client = options.get("clientId") or config.optional_text("sasl.oauthbearer.client.id")
    secret = options.get("clientSecret") or config.optional_text("sasl.oauthbearer.client.secret")
    scope = options.get("scope") or config.optional_text("sasl.oauthbearer.scope")
    if not client or not secret:
        missing = "sasl.oauthbearer.client.secret" if client else "sasl.oauthbearer.client.id"
        reason = "The token endpoint needs it, or clientId and clientSecret in sasl.jaas.config"
        raise InvalidSetting(missing, None, reason)
    timeout_s = config.integer("sasl.login.connect.timeout.ms") / 1000
    # RFC 6749, 2.3.1: both are form-encoded before they are joined.
    pair = f"{quote(client, safe='')}:{quote(secret, safe='')}".encode()
    headers = {
        "Authorization": f"Basic {base64.b64encode(pair).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})

    async def ask() -> BearerToken:
        request = Request(url, urlencode(form).encode(), headers, method="POST")
        document = await asyncio.to_thread(_post, request, timeout_s)
        text, lifetime_s = document.get("access_token"), document.get("expires_in")
        if not isinstance(text, str):
            raise SaslError("the token endpoint's answer has no access_token")
        return BearerToken(text, clock.now_ms() + _lifetime_ms(lifetime_s))

    return ask


def _lifetime_ms(lifetime_s: object) -> int:
    """Return the life of a token whose endpoint says it in seconds, as RFC 6749 recommends; else a short one."""
    return int(lifetime_s * 1000) if isinstance(lifetime_s, int | float) else 60_000


class _NoRedirect(HTTPRedirectHandler):
    """Follows to no other address: the secret of the client would go there."""

    def redirect_request(self, *_given: Any) -> None:
        """Return nothing: the response fails as any other that is no token."""


def _post(request: Request, timeout_s: float) -> dict[str, Any]:
    """Return the endpoint's answer. Raise SaslError for a refusal, OSError when it is not reached."""
    try:
        # The scheme was checked.
        with build_opener(_NoRedirect).open(request, timeout=timeout_s) as response:
            document = json.loads(response.read(_MAX_BYTES))
    except HTTPError as error:
        error.close()
        raise SaslError(f"the token endpoint answered {error.code} {error.reason}") from None
    except ValueError:
        raise SaslError("the token endpoint's answer is not JSON") from None
    if not isinstance(document, dict):
        raise SaslError("the token endpoint's answer is not a JSON object")
    return document


def _pairs(text: str) -> dict[str, str]:
    return dict(item.strip().partition("=")[::2] for item in text.split(",") if item.strip())
