"""The settings of one listener: the order of their names, and what counts with SASL_SSL."""

from __future__ import annotations

import pytest

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.configs.effective_configs import EffectiveConfigs
from kavka.broker.configs.listener_settings import ListenerSettings
from kavka.broker.security.tls import tls_settings


def configs(**texts: str) -> EffectiveConfigs:
    listeners = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_SSL",
    }
    return EffectiveConfigs(
        BrokerConfig(listeners | {n.replace("__", "."): t for n, t in texts.items()})
    )


def settings(texts: dict[str, str]) -> ListenerSettings:
    return ListenerSettings("CLIENTS", {"connections.max.reauth.ms": 0}, texts)


def test_a_mechanisms_setting_counts_before_its_listeners() -> None:
    names = [
        "listener.name.clients.plain.connections.max.reauth.ms",
        "plain.connections.max.reauth.ms",
        "listener.name.clients.connections.max.reauth.ms",
    ]
    for first in range(len(names)):
        texts = {name: str(number) for number, name in enumerate(names) if number >= first}
        assert settings(texts).integer("connections.max.reauth.ms", "PLAIN") == first
    assert settings({}).integer("connections.max.reauth.ms", "PLAIN") == 0


def test_a_setting_of_another_listener_or_mechanism_does_not_count() -> None:
    found = settings(
        {
            "listener.name.others.connections.max.reauth.ms": "1",
            "scram-sha-256.connections.max.reauth.ms": "2",
            "plain.connections.max.reauth.ms": "3",
        }
    )
    assert found.integer("connections.max.reauth.ms") == 0
    assert found.integer("connections.max.reauth.ms", "PLAIN") == 3


def test_a_stored_value_that_cannot_be_read_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    found = configs(listener__name__sasl_ssl__max__connections="7")
    assert found.listener("SASL_SSL").integer("max.connections") == 7
    found.put_broker({"listener.name.sasl_ssl.max.connections": "many"}, default=False)
    everywhere = found.broker_integer("max.connections")
    assert found.listener("SASL_SSL").integer("max.connections") == everywhere
    assert "listener.name.sasl_ssl.max.connections" in caplog.text


@pytest.mark.parametrize(("protocol", "client_auth"), [("SSL", "required"), ("SASL_SSL", "none")])
def test_certificates_are_not_asked_for_with_sasl_by_the_setting_of_all_listeners(
    protocol: str, client_auth: str
) -> None:
    found = configs(ssl__client__auth="required").listener("SASL_SSL")
    assert tls_settings(found, protocol).client_auth == client_auth


def test_certificates_are_asked_for_with_sasl_by_the_listeners_own_setting() -> None:
    found = configs(listener__name__sasl_ssl__ssl__client__auth="required").listener("SASL_SSL")
    assert tls_settings(found, "SASL_SSL").client_auth == "required"
