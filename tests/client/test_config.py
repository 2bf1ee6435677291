import logging

import pytest

from kavka import client
from kavka.client import SettingWithoutEffect, UnknownSetting, blocking
from kavka.client.config import ADMIN, CONSUMER, PRODUCER, Config
from kavka.client.serialization import field_function
from kavka.client.setting_names import effective_settings
from kavka.settings.declaration import InvalidSetting


def test_text_numbers_and_booleans_mean_the_same() -> None:
    for given in (
        {"linger.ms": "5", "enable.idempotence": "false", "bootstrap.servers": "a:1,b:2"},
        {"linger.ms": 5, "enable.idempotence": False, "bootstrap.servers": ["a:1", "b:2"]},
    ):
        config = Config(PRODUCER, given)
        assert config.integer("linger.ms") == 5
        assert config.flag("enable.idempotence") is False
        assert config.addresses() == [("a", 1), ("b", 2)]


def test_defaults_are_those_of_the_java_client() -> None:
    config = Config(CONSUMER, {"bootstrap.servers": "a:1"})
    assert config.integer("session.timeout.ms") == 45_000
    assert config.integer("max.poll.records") == 500
    assert config.text("auto.offset.reset") == "latest"
    assert Config(PRODUCER, {"bootstrap.servers": "a:1"}).text("acks") == "all"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("linger.ms", "soon"),
        ("linger.ms", -1),
        ("acks", "2"),
        ("compression.type", "rar"),
        ("bootstrap.servers", "nowhere"),
        ("bootstrap.servers", "host:99999"),
        ("security.protocol", "TLS"),
        ("ssl.crl.location", "/crl.pem"),
        ("transactional.id", " "),
        ("linger.ms", object()),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_setting(name, value):
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        Config(PRODUCER, {"bootstrap.servers": "a:1"} | {name: value})


def test_bootstrap_servers_must_be_given() -> None:
    with pytest.raises(ValueError, match=r"bootstrap\.servers"):
        Config(ADMIN, {})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"bootstrap.server": "a:1"}, r"bootstrap\.server; did you mean bootstrap\.servers\?"),
        (
            {"auto.ofset.reset": "earliest"},
            r"auto\.ofset\.reset; did you mean auto\.offset\.reset\?",
        ),
        ({"group_id": "g"}, r"group_id; did you mean group\.id\?"),
        ({"nothing.like.it": "secret"}, r"^Unknown setting nothing\.like\.it$"),
    ],
)
@pytest.mark.parametrize("client", [client.Consumer, blocking.Consumer])
def test_a_mistyped_name_is_refused_with_the_nearest_known_one(client, given, meant):
    with pytest.raises(UnknownSetting, match=meant):
        client({"bootstrap.servers": "a:1"} | given)


def test_names_of_other_clients_are_warned_of_once_where_the_user_is() -> None:
    settings = {
        "bootstrap.servers": "a:1",
        "queue.buffering.max.ms": 5,  # librdkafka's
        "group.id": "g",  # a consumer's
        "ssl.provider": "theirs",
        "metrics.recording.level": 2,  # declared, without effect
    }
    with pytest.warns(SettingWithoutEffect) as warned:
        client.Producer(settings)
    (warning,) = warned
    assert str(warning.message) == (
        "settings without effect in this client: queue.buffering.max.ms (here it is linger.ms), "
        "group.id, ssl.provider, metrics.recording.level"
    )
    assert warning.filename == __file__


def test_a_tool_passes_over_what_a_client_does_not_obey(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        kept = effective_settings(
            CONSUMER, {"group.id": "g", "linger.ms": "5", "auto.ofset.reset": "latest"}
        )
    assert kept == {"group.id": "g"}
    assert "did you mean auto.offset.reset?" in caplog.text
    assert "client setting has no effect name=linger.ms" in caplog.text


def test_ipv6_addresses_lose_their_brackets() -> None:
    assert Config(ADMIN, {"bootstrap.servers": "[::1]:9092"}).addresses() == [("::1", 9092)]


def test_javas_string_serializer_is_understood() -> None:
    name = "org.apache.kafka.common.serialization.StringSerializer"
    config = Config(PRODUCER, {"bootstrap.servers": "a:1", "key.serializer": name})
    assert field_function(config, "key.serializer").call("é") == "é".encode()
    config = Config(PRODUCER, {"bootstrap.servers": "a:1", "key.serializer": "com.example.Mine"})
    with pytest.raises(ValueError, match=r"key\.serializer"):
        field_function(config, "key.serializer")


def test_a_secret_of_a_wrong_type_is_not_shown() -> None:
    with pytest.raises(InvalidSetting) as refused:
        Config(ADMIN, {"bootstrap.servers": "h:1", "sasl.password": b"very secret"})
    assert "very secret" not in str(refused.value)
