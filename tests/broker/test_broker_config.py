import pytest

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.settings.declaration import InvalidSetting


def test_an_authorizer_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidSetting, match="AclAuthorizer, or module:Class"):
        BrokerConfig({"authorizer.class.name": "org.example.RangerAuthorizer"})


def test_an_empty_authorizer_is_none() -> None:
    assert BrokerConfig({"authorizer.class.name": ""}).optional("authorizer.class.name") == ""


def test_a_security_protocol_without_its_listener_is_named() -> None:
    with pytest.raises(InvalidSetting, match="Expected LISTENER:PROTOCOL") as refused:
        BrokerConfig({"listener.security.protocol.map": "PLAINTEXT"})
    assert refused.value.name == "listener.security.protocol.map"


@pytest.mark.parametrize(
    ("texts", "setting"),
    [
        ({}, "security.inter.broker.protocol"),
        ({"inter.broker.listener.name": "INSIDE"}, "inter.broker.listener.name"),
    ],
)
def test_brokers_without_a_listener_between_them_name_the_setting_and_the_listeners(
    texts: dict[str, str], setting: str
) -> None:
    with pytest.raises(
        InvalidSetting, match=r"inter\.broker\.listener\.name to one of A, B"
    ) as refused:
        BrokerConfig(
            {
                "listeners": "A://127.0.0.1:9092,B://127.0.0.1:9093",
                "listener.security.protocol.map": "A:SASL_SSL,B:SSL",
                **texts,
            }
        )
    assert refused.value.name == setting


def test_a_protocol_that_is_none_is_a_fault_of_the_map() -> None:
    wrong = {"listeners": "A://:9092", "listener.security.protocol.map": "A:SASL_SLL"}
    with pytest.raises(InvalidSetting, match="use PLAINTEXT or SSL or") as refused:
        BrokerConfig(wrong)
    assert (refused.value.name, refused.value.value) == (
        "listener.security.protocol.map",
        "A:SASL_SLL",
    )


def test_names_of_listeners_are_the_same_in_any_case() -> None:
    config = BrokerConfig(
        {
            "listeners": "inside://127.0.0.1:9092",
            "listener.security.protocol.map": "Inside:plaintext",
            "inter.broker.listener.name": "inside",
        }
    )
    assert [str(endpoint) for endpoint in config.listeners] == ["INSIDE://127.0.0.1:9092"]
    assert config.inter_broker_listener == "INSIDE"


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"broker.id": "1001"}, "not be larger than reserved.broker.max.id"),
        ({"broker.id.generation.enable": "false"}, "0 or more"),
        ({"broker.id.generation.enable": "false", "broker.id": "-1"}, "0 or more"),
    ],
)
def test_an_id_that_could_be_another_brokers_is_refused(texts: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason) as refused:
        BrokerConfig(texts)
    assert refused.value.name == "broker.id"


def test_an_id_is_as_large_as_its_owner_likes_where_none_are_made() -> None:
    config = BrokerConfig({"broker.id.generation.enable": "false", "broker.id": "5000"})
    assert config.integer("broker.id") == 5000


def test_a_mistyped_setting_is_warned_of_with_the_nearest_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    BrokerConfig({"log.retention.housr": "1", "xyz": "1"})
    assert [record.getMessage() for record in caplog.records] == [
        "unknown setting ignored name=log.retention.housr; did you mean log.retention.hours?",
        "unknown setting ignored name=xyz",
    ]


def test_a_setting_of_a_listener_that_there_is_not_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required;"
    # That of a mechanism, for all listeners, is no listener's.
    names = ("plain.sasl.jaas.config", "listener.name.clients.plain.sasl.jaas.config")
    BrokerConfig(dict.fromkeys(names, jaas))
    assert [record.getMessage() for record in caplog.records] == [
        "setting of a listener that there is not name=listener.name.clients.plain.sasl.jaas.config "
        "listeners=metrics,plaintext"
    ]


def test_a_setting_of_a_mechanism_that_there_is_not_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    names = [
        f"listener.name.plaintext.{m}sasl.jaas.config"
        for m in ("", "scram-sha-512.", "scram-sha512.")
    ]
    BrokerConfig(dict.fromkeys(names, jaas))
    assert [record.getMessage() for record in caplog.records] == [
        f"setting of a SASL mechanism that there is not name={names[2]}"
    ]


def test_protection_that_is_not_in_this_release_is_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"principal\.builder\.class"):
        BrokerConfig({"principal.builder.class": "org.acme.Builder"})
    default = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    BrokerConfig({"principal.builder.class": default})
    for name in ("org.acme.Quotas", "quotas:Quotas"):
        with pytest.raises(
            InvalidSetting, match=r"client\.quota\.callback\.class.*remove the setting"
        ):
            BrokerConfig({"client.quota.callback.class": name})
    BrokerConfig({"client.quota.callback.class": ""})


CONNECTED = {"zookeeper.connect": "127.0.0.1:2181"}
STORE = {"zookeeper.ssl.keystore.location": "own.pem"}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "keeps its registry itself"),
        (CONNECTED, "has no identity at ZooKeeper"),
        (CONNECTED | STORE, "has no identity at ZooKeeper"),
    ],
)
def test_znodes_are_protected_only_for_an_identity_that_the_broker_has(
    given: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        BrokerConfig({"zookeeper.set.acl": "true", **given})
    BrokerConfig({"zookeeper.set.acl": "false", **given})


@pytest.mark.parametrize(
    "identity",
    [{"kavka.zookeeper.jaas.file": "jaas.conf"}, STORE | {"zookeeper.ssl.client.enable": "true"}],
)
def test_a_login_or_a_certificate_is_an_identity_at_zookeeper(identity: dict[str, str]) -> None:
    BrokerConfig({"zookeeper.set.acl": "true", **CONNECTED, **identity})
