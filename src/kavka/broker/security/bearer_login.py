"""This broker's tokens for OAUTHBEARER at other brokers, by the settings of the listener between them.

callback          `sasl.login.callback.handler.class=module:name`: a callable, async or not, that returns a token and
                  its end, milliseconds since 1970
token endpoint    `sasl.oauthbearer.token.endpoint.url`, with clientId, clientSecret and scope of the login module
no signature      `unsecuredLoginStringClaim_sub` of the login module, for tests
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from kavka.broker.configs.listener_settings import JAAS, ListenerSettings
from kavka.core.sasl.exchange import ClientExchange
from kavka.core.sasl.jaas import JaasLogin
from kavka.core.sasl.mechanisms import LOGIN_MODULES
from kavka.core.sasl.oauthbearer import OAUTHBEARER, OAuthBearerClient
from kavka.io import Clock, Random
from kavka.net.bearer_renewal import RefreshTimes, RenewedToken
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

log = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 10_000
"""Of the token endpoint, where the settings name none."""


def broker_bearer_login(
    settings: ListenerSettings, login: JaasLogin | None, clock: Clock, random: Random
) -> MechanismLogin:
    """Return the login by tokens. Raise InvalidSetting, which shows no secret."""
    options: Mapping[str, str] = {} if login is None else login.options
    source, origin = _source(settings, options, clock)
    extensions = module_extensions(options)

    async def checked() -> BearerToken:
        token = await source()
        OAuthBearerClient(token.text, extensions)  # raises SaslError for what cannot be sent
        return token

    token = RenewedToken(checked, _times(settings), clock, random, origin)

    async def begin() -> ClientExchange:
        return OAuthBearerClient((await token.current()).text, extensions)

    return MechanismLogin(OAUTHBEARER, begin, random)


def _source(
    settings: ListenerSettings, options: Mapping[str, str], clock: Clock
) -> tuple[Source, str]:
    """Return what gives tokens, and its name for the log."""
    callback = settings.optional("sasl.login.callback.handler.class", OAUTHBEARER)
    if callback is not None and not is_java_handler(callback):
        return callable_source(callback), callback
    url = settings.optional("sasl.oauthbearer.token.endpoint.url", OAUTHBEARER)
    if url is not None:
        return _of_endpoint(settings, options, url, clock), url
    jaas = settings.name_of(JAAS, OAUTHBEARER)
    if has_unsecured(options):
        log.warning(
            "this broker authenticates to others by tokens without a signature, which any client can write listener=%s",
            settings.listener,
        )
        return unsecured_source(jaas, options, clock), "options without a signature"
    reason = (
        "brokers authenticate to each other by OAUTHBEARER: set it, with clientId and clientSecret in "
        f"{jaas}={LOGIN_MODULES[OAUTHBEARER]}; or {CALLBACK}; or, for tests, unsecuredLoginStringClaim_sub there"
    )
    raise InvalidSetting(ENDPOINT, "", reason)


def _of_endpoint(
    settings: ListenerSettings, options: Mapping[str, str], url: str, clock: Clock
) -> Source:
    client, secret = options.get("clientId"), options.get("clientSecret")
    if not client or not secret:
        reason = "the token endpoint needs the options clientId and clientSecret of this broker"
        jaas = settings.name_of(JAAS, OAUTHBEARER)
        raise InvalidSetting(jaas, "[hidden]" if options else "", reason)
    if url.startswith("http:"):
        log.warning("the secret of this broker is sent without TLS url=%s", url)
    connect_s = _timeout_s(settings, "sasl.login.connect.timeout.ms")
    read_s = _timeout_s(settings, "sasl.login.read.timeout.ms")
    return endpoint_source(
        TokenEndpoint(url, client, secret, options.get("scope"), connect_s, read_s), clock
    )


def _timeout_s(settings: ListenerSettings, name: str) -> float:
    timeout_ms = settings.value(name, OAUTHBEARER)
    assert timeout_ms is None or isinstance(timeout_ms, int)
    return (timeout_ms or _TIMEOUT_MS) / 1000


def _times(settings: ListenerSettings) -> RefreshTimes:
    return RefreshTimes(
        settings.number("sasl.login.refresh.window.factor", OAUTHBEARER),
        settings.number("sasl.login.refresh.window.jitter", OAUTHBEARER),
        settings.integer("sasl.login.refresh.min.period.seconds", OAUTHBEARER),
        settings.integer("sasl.login.refresh.buffer.seconds", OAUTHBEARER),
        settings.integer("sasl.login.retry.backoff.ms", OAUTHBEARER),
        settings.integer("sasl.login.retry.backoff.max.ms", OAUTHBEARER),
    )
