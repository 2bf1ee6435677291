"""The tokens by which a broker authenticates to others: what its settings must say, and where the token comes from."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from base64 import urlsafe_b64decode
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.context import BrokerContext
from kavka.broker.control.refusals_by_brokers import RefusalsByBrokers
from kavka.broker.environment import OsEnvironment
from kavka.broker.security.inter_broker_login import inter_broker_login
from kavka.errors import AuthenticationFailed
from kavka.net.bearer_renewal import TokenUnavailable
from kavka.net.sasl_login import MechanismLogin
from kavka.settings.declaration import InvalidSetting
from support.sasl import SETTINGS

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
JAAS = "listener.name.clients.oauthbearer.sasl.jaas.config"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
CALLBACK = "sasl.login.callback.handler.class"
HANDLER = f"{MODULE.rpartition('.')[0]}.secured.OAuthBearerLoginCallbackHandler"
UNSECURED = 'unsecuredLoginStringClaim_sub="broker"'


def given_token() -> tuple[str, int]:
    return "given", int(time.time() * 1000) + 60_000


async def given_later() -> tuple[str, int]:
    return "later", int(time.time() * 1000) + 60_000


def login(**settings: str | None) -> MechanismLogin:
    texts = {
        **SETTINGS,
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.jaas.config": None,
        **settings,
    }
    present = {name: text for name, text in texts.items() if text is not None}
    context = BrokerContext(BrokerConfig(present), OsEnvironment(), has_own_registry=False)
    made = inter_broker_login(context)
    assert isinstance(made, MechanismLogin)
    return made


def first_message(made: MechanismLogin) -> bytes:
    async def first() -> bytes:
        return (await made._begin()).first()

    return asyncio.run(first())


def claims_of(message: bytes) -> dict[str, Any]:
    part = message.split(b".")[1]
    found: dict[str, Any] = json.loads(urlsafe_b64decode(part + b"=="))
    return found


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, f"{ENDPOINT}.* set it, with clientId and clientSecret in {JAAS}"),
        ({JAAS: f'{MODULE} required unsecuredValidatorRequiredScope="a";'}, ENDPOINT),
        ({JAAS: f'{MODULE} required unsecuredLoginStringClaim_x="a";'}, f"{JAAS}.* no claim sub"),
        (
            {JAAS: f'{MODULE} required {UNSECURED} unsecuredLoginLifetimeSeconds="Infinity";'},
            f"{JAAS}.*infinity",
        ),
        ({ENDPOINT: "https://a/token"}, f"{JAAS}.* clientId and clientSecret"),
        (
            {ENDPOINT: "https://a/token", JAAS: f'{MODULE} required clientId="a";'},
            f"{JAAS}.* clientId and clientSecret",
        ),
        (
            {ENDPOINT: "a", JAAS: f'{MODULE} required clientId="a" clientSecret="topsecret";'},
            "Expected an http or https URL",
        ),
        ({CALLBACK: "com.example.Tokens"}, "Give a callable, or module:name"),
        ({CALLBACK: f"{__name__}:nothing"}, "no attribute 'nothing'"),
        ({JAAS: f"PlainLoginModule required {UNSECURED};"}, f"needs the login module {MODULE}"),
        ({"sasl.login.connect.timeout.ms": "0"}, "sasl.login.connect.timeout.ms"),
    ],
)
def test_a_broker_that_could_get_no_token_refuses_the_start(
    settings: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidSetting, match=message) as refused:
        login(**settings)
    assert "topsecret" not in str(refused.value)


@pytest.mark.parametrize(
    "name", [f"listener.name.clients.oauthbearer.{CALLBACK}", f"oauthbearer.{CALLBACK}", CALLBACK]
)
@pytest.mark.parametrize("token", ["token", "later"])
def test_a_callable_of_ones_own_gives_the_token(name: str, token: str) -> None:
    callback = f"{__name__}:given_{token}"
    expected = b"given" if token == "token" else b"later"
    jaas = f'{MODULE} required extension_tenant="x";'
    message = first_message(login(**{name: callback, JAAS: jaas}))
    assert message == b"n,,\x01auth=Bearer %s\x01tenant=x\x01\x01" % expected


def test_a_token_without_signature_is_of_the_options_and_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = login(**{JAAS: f"{MODULE} required {UNSECURED};"})
    assert claims_of(first_message(made))["sub"] == "broker"
    assert "this broker authenticates to others by tokens without a signature" in caplog.text


def test_the_general_login_module_counts_where_that_of_the_listener_only_checks_tokens() -> None:
    made = login(
        **{
            JAAS: f'{MODULE} required unsecuredValidatorPrincipalClaimName="sub";',
            "sasl.jaas.config": f"{MODULE} required {UNSECURED};",
        }
    )
    assert claims_of(first_message(made))["sub"] == "broker"


def test_kafkas_class_for_token_endpoints_means_the_endpoint(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is what a server.properties of Apache Kafka has; nothing listens there, which must not stop the broker."""
    made = login(
        **{
            f"oauthbearer.{CALLBACK}": HANDLER,
            ENDPOINT: "http://127.0.0.1:9/token",
            JAAS: f'{MODULE} required clientId="a" clientSecret="topsecret";',
        }
    )
    with pytest.raises(TokenUnavailable, match=r"http://127.0.0.1:9/token: .*refused"):
        first_message(made)
    assert (
        "the secret of this broker is sent without TLS url=http://127.0.0.1:9/token" in caplog.text
    )
    assert "bearer token of this broker not got origin=http://127.0.0.1:9/token" in caplog.text
    assert "topsecret" not in caplog.text


def test_an_endpoint_that_is_down_does_not_look_like_a_broker_that_is_down() -> None:
    """A refused connection to a broker tells the controller that it died."""
    assert not issubclass(TokenUnavailable, ConnectionRefusedError)


def test_a_refused_token_is_not_called_a_wrong_password(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse() -> None:
        error = AuthenticationFailed("OAUTHBEARER", '{"status":"invalid_token"}')
        assert RefusalsByBrokers().is_refusal(SimpleNamespace(), error)

    with caplog.at_level(logging.WARNING):
        asyncio.run(refuse())
    assert "look at the token of this broker" in caplog.text
    assert "password" not in caplog.text


def test_times_are_those_of_the_listeners_settings() -> None:
    prefix = "listener.name.clients.oauthbearer.sasl.login."
    made = login(
        **{
            JAAS: f"{MODULE} required {UNSECURED};",
            f"{prefix}refresh.window.factor": "0.6",
            f"{prefix}refresh.window.jitter": "0.0",
            f"{prefix}refresh.min.period.seconds": "1",
            f"{prefix}refresh.buffer.seconds": "2",
            f"{prefix}retry.backoff.ms": "7",
            f"{prefix}retry.backoff.max.ms": "9",
        }
    )
    (token,) = [
        cell.cell_contents
        for cell in made._begin.__closure__ or ()
        if hasattr(cell.cell_contents, "current")
    ]
    times = token._times
    assert times.delay_ms(10_000, 1.0) == 6000
    assert [times.backoff(n) for n in (1, 2)] == [7, 9]
