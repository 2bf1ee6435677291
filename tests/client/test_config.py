import logging

import pytest

from kavka.client.config import ADMIN, CONSUMER, PRODUCER, Config, as_callable


def test_text_numbers_and_booleans_mean_the_same():
    for given in (
        {"linger.ms": "5", "enable.idempotence": "false", "bootstrap.servers": "a:1,b:2"},
        {"linger.ms": 5, "enable.idempotence": False, "bootstrap.servers": ["a:1", "b:2"]},
    ):
        config = Config(PRODUCER, given)
        assert config.integer("linger.ms") == 5
        assert config.flag("enable.idempotence") is False
        assert config.addresses() == [("a", 1), ("b", 2)]


def test_defaults_are_those_of_the_java_client():
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
        ("security.protocol", "SSL"),
        ("transactional.id", " "),
        ("linger.ms", object()),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_setting(name, value):
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        Config(PRODUCER, {"bootstrap.servers": "a:1"} | {name: value})


def test_bootstrap_servers_must_be_given():
    with pytest.raises(ValueError, match=r"bootstrap\.servers"):
        Config(ADMIN, {})


def test_an_unknown_name_is_warned_of_with_the_nearest_known_one(caplog):
    with caplog.at_level(logging.WARNING):
        Config(PRODUCER, {"bootstrap.servers": "a:1", "linger.msec": 5})
    assert "did you mean linger.ms?" in caplog.text


def test_ipv6_addresses_lose_their_brackets():
    assert Config(ADMIN, {"bootstrap.servers": "[::1]:9092"}).addresses() == [("::1", 9092)]


def test_javas_string_serializer_is_understood():
    name = "org.apache.kafka.common.serialization.StringSerializer"
    config = Config(PRODUCER, {"bootstrap.servers": "a:1", "key.serializer": name})
    assert as_callable(config, "key.serializer")("é") == "é".encode()
    config = Config(PRODUCER, {"bootstrap.servers": "a:1", "key.serializer": "com.example.Mine"})
    with pytest.raises(ValueError, match=r"key\.serializer"):
        as_callable(config, "key.serializer")
