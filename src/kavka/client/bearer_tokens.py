"""Bearer tokens for OAUTHBEARER, by a client's settings.

A token serves all connections until 80% of its life are over; then the next connection gets another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kavka.client.config import Config
from kavka.core.sasl.exchange import ClientExchange
from kavka.core.sasl.oauthbearer import OAUTHBEARER, OAuthBearerClient
from kavka.core.sasl.unsecured_jwt import librdkafka_options
from kavka.io import Clock, Random
from kavka.net.bearer_tokens import (
    CALLBACK,
    ENDPOINT,
    BearerToken,
    Source,
    TokenEndpoint,
    callable_source,
    endpoint_source,
    has_unsecured,
    is_java_handler,
    module_extensions,
    unsecured_source,
)
from kavka.net.sasl_login import MechanismLogin
from kavka.settings.declaration import InvalidSetting

_SHARE: Final = 0.8


def bearer_login(
    config: Config, options: Mapping[str, str], clock: Clock, random: Random
) -> MechanismLogin:
    """Return the login of the settings. Raise InvalidSetting, which shows no secret."""
    options = {**options, **_of_librdkafka(config)}
    source = _source(config, options, clock)
    extensions = {
        **module_extensions(options),
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
        return callable_source(callback)
    url = config.optional_text(ENDPOINT)
    if url is not None:
        return _of_endpoint(config, options, url, clock)
    if has_unsecured(options):
        return unsecured_source("sasl.jaas.config", options, clock)
    reason = (
        "OAUTHBEARER needs it; or a callable that returns tokens, as "
        f"{CALLBACK}; or, for tests, unsecuredLoginStringClaim_sub in sasl.jaas.config"
    )
    raise InvalidSetting(ENDPOINT, None, reason)


def _callback(config: Config) -> Any:
    callback = config.value(CALLBACK)
    return None if is_java_handler(callback) else callback


def _of_librdkafka(config: Config) -> dict[str, str]:
    """Return the options of tokens without a signature, unless a callback or an endpoint gives tokens."""
    has_source = _callback(config) is not None or config.optional_text(ENDPOINT) is not None
    if has_source or not config.flag("enable.sasl.oauthbearer.unsecure.jwt"):
        return {}
    text = config.optional_text("sasl.oauthbearer.config") or ""
    try:
        return librdkafka_options(text)
    except ValueError as error:
        raise InvalidSetting("sasl.oauthbearer.config", text, str(error)) from None


def _of_endpoint(config: Config, options: Mapping[str, str], url: str, clock: Clock) -> Source:
    client = options.get("clientId") or config.optional_text("sasl.oauthbearer.client.id")
    secret = options.get("clientSecret") or config.optional_text("sasl.oauthbearer.client.secret")
    scope = options.get("scope") or config.optional_text("sasl.oauthbearer.scope")
    if not client or not secret:
        missing = "sasl.oauthbearer.client.secret" if client else "sasl.oauthbearer.client.id"
        reason = "The token endpoint needs it, or clientId and clientSecret in sasl.jaas.config"
        raise InvalidSetting(missing, None, reason)
    connect_s = config.integer("sasl.login.connect.timeout.ms") / 1000
    read_s = config.integer("sasl.login.read.timeout.ms") / 1000
    return endpoint_source(TokenEndpoint(url, client, secret, scope, connect_s, read_s), clock)


def _pairs(text: str) -> dict[str, str]:
    return dict(item.strip().partition("=")[::2] for item in text.split(",") if item.strip())
