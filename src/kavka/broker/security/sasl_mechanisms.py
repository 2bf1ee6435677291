"""The mechanisms that a listener offers, made from its settings; what cannot work refuses the start.

PLAIN          users of the JAAS login module (`user_<name>="<password>"`), or a callback
SCRAM-SHA-*    credentials of the registry, delegation tokens
OAUTHBEARER    signed tokens (`sasl.oauthbearer.jwks.endpoint.url`), unsecured ones, or a callback
GSSAPI         tickets for the principal of the JAAS login module, whose keys are in its key tab (`kerberos`)
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from kavka.broker.configs.listener_settings import JAAS, ListenerSettings
from kavka.broker.security.callbacks import CallbackCheck
from kavka.broker.security.scram_credentials import ScramCredentials
from kavka.broker.security.user_classes import make_user_object
from kavka.core.sasl.conversation import Offer
from kavka.core.sasl.exchange import (
    CheckPassword,
    CheckResult,
    CheckToken,
    Failure,
    FindDelegationToken,
    Question,
    ServerExchange,
    Success,
)
from kavka.core.sasl.gssapi import GSSAPI
from kavka.core.sasl.jaas import JaasError, JaasLogin, parse_jaas
from kavka.core.sasl.jaas_options import jaas_faults
from kavka.core.sasl.mechanisms import LOGIN_MODULES, MECHANISMS
from kavka.core.sasl.oauthbearer import OAUTHBEARER, OAuthBearerServer, refusal_of
from kavka.core.sasl.plain import PLAIN, PlainServer, check_password, jaas_users
from kavka.core.sasl.scram import NONCE_BYTES, ScramServer, new_nonce
from kavka.core.sasl.scram_credential import SCRAM_MECHANISMS, ScramMechanism
from kavka.core.sasl.unsecured_jwt import InvalidToken, read_unsecured, unsecured_rules
from kavka.io import Clock, Random
from kavka.settings.declaration import InvalidSetting
from kavka.values import frozen

if TYPE_CHECKING:
    from kavka.broker.security.delegation_tokens import DelegationTokens

log = logging.getLogger(__name__)

CALLBACK: Final = "sasl.server.callback.handler.class"
_ENABLED: Final = "sasl.enabled.mechanisms"
_JAVA_TOKEN_HANDLERS: Final = (
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
)
"""Of Kafka's classes those that check signed tokens, as this broker does by itself."""

Check = Callable[[Question], CheckResult | Awaitable[CheckResult]]


@frozen
class Mechanism:
    """A mechanism of a listener: how an exchange begins, and what answers its questions."""

    offer: Offer
    check: Check


class Mechanisms:
    """Makes the mechanisms of a broker's listeners."""

    def __init__(
        self,
        credentials: ScramCredentials,
        tokens: DelegationTokens | None,
        clock: Clock,
        random: Random,
    ) -> None:
        """Authenticate by these credentials, and these delegation tokens if there are any."""
        self._credentials = credentials
        self._tokens = tokens
        self._clock = clock
        self._random = random

    def of(self, settings: ListenerSettings) -> dict[str, Mechanism]:
        """Return the mechanisms of a listener, by name, in the order of the setting. Raise InvalidSetting."""
        names = [name.upper() for name in settings.items(_ENABLED)]
        if not names:
            raise InvalidSetting(_ENABLED, "", _advice(settings, "names no mechanism"))
        for name in names:
            if name not in MECHANISMS:
                reason = _advice(settings, f"kavka does not support {name}")
                raise InvalidSetting(_ENABLED, name, reason)
        return {name: self._mechanism(name, settings) for name in names}

    def _mechanism(self, name: str, settings: ListenerSettings) -> Mechanism:
        _warn_of_options(settings, name)
        begin: Callable[[], ServerExchange]
        check: Check
        if name == PLAIN:
            begin, check = PlainServer, self._password_check(settings)
        elif name == OAUTHBEARER:
            begin, check = OAuthBearerServer, self._token_check(settings)
        elif name == GSSAPI:
            from kavka.broker.security.kerberos import acceptor, taken

            _refuse_callback(settings, name, "GSSAPI asks the key tab")
            begin, check = acceptor(settings, jaas_login(settings, name)), taken
        else:
            scram = SCRAM_MECHANISMS[name]  # there is no other
            _refuse_callback(settings, name, "SCRAM credentials are those of the registry")
            begin, check = self._scram(scram), self._delegation_token
        return Mechanism(Offer(begin, settings.integer("connections.max.reauth.ms", name)), check)

    def _scram(self, mechanism: ScramMechanism) -> Callable[[], ScramServer]:
        credentials, random = self._credentials, self._random

        def begin() -> ScramServer:
            return ScramServer(
                mechanism,
                lambda user: credentials.of(mechanism, user),
                lambda user: credentials.imitated(mechanism, user),
                new_nonce(random.random_bytes(NONCE_BYTES)),
            )

        return begin

    def _delegation_token(self, question: Question) -> CheckResult | Awaitable[CheckResult]:
        assert isinstance(question, FindDelegationToken)
        if self._tokens is None:
            return Failure("delegation tokens are off: delegation.token.secret.key is not set")
        return self._tokens.login(question.mechanism, question.token_id)

    def _password_check(self, settings: ListenerSettings) -> Check:
        login = jaas_login(settings, PLAIN)
        callback = settings.optional(CALLBACK, PLAIN)
        if callback is not None:
            setting = settings.name_of(CALLBACK, PLAIN)
            options: Mapping[str, str] = login.options if login else {}
            return CallbackCheck(make_user_object(setting, callback, options, "authenticate"))
        users = jaas_users(login.options) if login else {}
        if not users:
            example = f'{LOGIN_MODULES[PLAIN]} required user_alice="<password>";'
            reason = f"PLAIN has no users: set it to: {example} or set {settings.name_of(CALLBACK, PLAIN)}"
            raise InvalidSetting(settings.name_of(JAAS, PLAIN), "[hidden]" if login else "", reason)

        def check(question: Question) -> Success | Failure:
            assert isinstance(question, CheckPassword)
            return check_password(users, question)

        return check

    def _token_check(self, settings: ListenerSettings) -> Check:
        login = jaas_login(settings, OAUTHBEARER)
        options: Mapping[str, str] = login.options if login else {}
        callback = settings.optional(CALLBACK, OAUTHBEARER)
        url = settings.optional("sasl.oauthbearer.jwks.endpoint.url", OAUTHBEARER)
        if callback is not None and callback not in _JAVA_TOKEN_HANDLERS:
            setting = settings.name_of(CALLBACK, OAUTHBEARER)
            return CallbackCheck(make_user_object(setting, callback, options, "validate"))
        if url is not None:
            from kavka.broker.security.signed_tokens import signed_token_check

            return signed_token_check(settings, url, self._clock)
        if login is None or callback is not None:
            example = f"{LOGIN_MODULES[OAUTHBEARER]} required;"
            reason = (
                "OAUTHBEARER checks signed tokens by the keys of their issuer: set it. For tests, tokens without "
                f"signature are accepted with {settings.name_of(JAAS, OAUTHBEARER)}={example}"
            )
            raise InvalidSetting("sasl.oauthbearer.jwks.endpoint.url", "", reason)

        try:
            rules = unsecured_rules(options)
        except ValueError as error:
            setting = settings.name_of(JAAS, OAUTHBEARER)
            raise InvalidSetting(setting, "[hidden]", str(error)) from None
        log.warning(
            "tokens without a signature are accepted, which any client can write listener=%s",
            settings.listener,
        )

        def check(question: Question) -> Success | Failure:
            assert isinstance(question, CheckToken)
            try:
                owner = read_unsecured(question.token, rules, self._clock.now_ms())
            except InvalidToken as error:
                return refusal_of(error)
            return Success(owner.user, expires_ms=owner.expires_ms)

        return check


def _warn_of_options(settings: ListenerSettings, mechanism: str) -> None:
    """Read the login module of a mechanism, and warn of what has no effect in it. Raise InvalidSetting."""
    login = jaas_login(settings, mechanism)
    if login is None or settings.optional(CALLBACK, mechanism) is not None:
        return  # a class of a user's takes any options
    for fault in jaas_faults(mechanism, login.options):
        log.warning(
            "login module has an option without effect name=%s reason=%s",
            settings.name_of(JAAS, mechanism),
            fault,
        )


def jaas_login(settings: ListenerSettings, mechanism: str) -> JaasLogin | None:
    """Return the login module that is set for a mechanism of a listener. Raise InvalidSetting without a value in it."""
    text = settings.text_of_mechanism(JAAS, mechanism)
    if text is None:
        return None
    return parsed_login(settings.name_of(JAAS, mechanism), text, mechanism)


def parsed_login(setting: str, text: str, mechanism: str) -> JaasLogin:
    """Return the login module of a mechanism that a setting describes. Raise InvalidSetting without a value in it."""
    try:
        login = parse_jaas(text)
    except JaasError as error:
        raise InvalidSetting(setting, "[hidden]", str(error)) from None
    if not login.is_module(LOGIN_MODULES[mechanism]):
        reason = f"{mechanism} needs the login module {LOGIN_MODULES[mechanism]}"
        raise InvalidSetting(setting, "[hidden]", reason)
    return login


def _refuse_callback(settings: ListenerSettings, mechanism: str, why: str) -> None:
    if settings.text_of_mechanism(CALLBACK, mechanism) is not None:
        setting = settings.name_of(CALLBACK, mechanism)
        raise InvalidSetting(setting, "", f"{why}: it takes no callback")


def _advice(settings: ListenerSettings, what: str) -> str:
    return (
        f"{what}, so no client could authenticate at the listener {settings.listener}: set "
        f"{_ENABLED} to one or more of {', '.join(MECHANISMS)}"
    )
