"""Settings are parsed as Kafka parses them, and refuse with the reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.settings.broker import BROKER_SETTINGS, resolve_defaults
from kavka.settings.declaration import InvalidSetting
from kavka.settings.topic import TOPIC_SETTINGS, topic_defaults


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "num.partitions",
            "0",
            "Invalid value 0 for configuration num.partitions: Value must be at least 1",
        ),
        (
            "num.partitions",
            "many",
            "Invalid value many for configuration num.partitions: Not a number of type INT",
        ),
        ("num.partitions", "2147483648", "Not a number of type INT"),
        ("num.partitions", "1" * 5000, "Not a number of type INT"),
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
        ("log.cleanup.policy", "delete,burn", "String must be one of: compact, delete"),
        ("log.message.timestamp.type", "Now", "String must be one of: CreateTime, LogAppendTime"),
    ],
)
def test_bad_values_are_refused_with_the_reason(name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        BROKER_SETTINGS[name].parse(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cleanup.policy", "delete,", "String must be one of: compact, delete"),
        ("cleanup.policy", ",", "String must be one of: compact, delete"),
        ("leader.replication.throttled.replicas", "5", "Invalid value [5] for configuration"),
        ("leader.replication.throttled.replicas", "*,0:1", "Invalid value [*, 0:1] for"),
        ("follower.replication.throttled.replicas", "0:1:2", "Must be the literal '*'"),
        ("follower.replication.throttled.replicas", "0:\u0661", "Must be the literal '*'"),
        ("min.cleanable.dirty.ratio", "nan", "Not a number of type DOUBLE"),
        ("min.cleanable.dirty.ratio", "0_1", "Not a number of type DOUBLE"),
        ("min.cleanable.dirty.ratio", "inf", "Not a number of type DOUBLE"),
        ("message.format.version", "abc", "Version abc is not a valid version"),
        ("message.format.version", "3.0-IV2", "Version 3.0-IV2 is not a valid version"),
        ("message.format.version", "3.0.", "Version 3.0. is not a valid version"),
    ],
)
def test_what_kafka_would_not_start_with_is_not_stored(name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        TOPIC_SETTINGS[name].parse_new(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("cleanup.policy", "compact , delete", ["compact", "delete"]),
        ("leader.replication.throttled.replicas", "0:1,,1:2", ["0:1", "1:2"]),
        ("leader.replication.throttled.replicas", "*", ["*"]),
        ("leader.replication.throttled.replicas", "", []),
        ("min.cleanable.dirty.ratio", ".5", 0.5),
        ("min.cleanable.dirty.ratio", "5e-1d", 0.5),
        ("message.format.version", "0.10.2.1", "0.10.2.1"),
        ("message.format.version", "2.8-IV1", "2.8-IV1"),
        ("message.format.version", "0.8.2", "0.8.2"),
    ],
)
def test_what_kafka_takes_is_taken(name: str, text: str, value: object) -> None:
    assert TOPIC_SETTINGS[name].parse_new(text) == value


def test_a_stored_list_with_an_empty_item_is_read_without_it() -> None:
    assert TOPIC_SETTINGS["cleanup.policy"].parse("compact,") == ["compact"]


def test_every_default_obeys_its_own_declaration() -> None:
    for catalogue in (BROKER_SETTINGS, TOPIC_SETTINGS):
        for setting in catalogue:
            if setting.default is not None:
                assert setting.parse(setting.print(setting.default)) == setting.default, (
                    setting.name
                )


def test_every_synonym_is_a_broker_setting_of_the_same_type() -> None:
    for setting in TOPIC_SETTINGS:
        if setting.synonym is not None:
            assert BROKER_SETTINGS[setting.synonym].type is setting.type, setting.name


def test_retention_comes_from_ms_before_minutes_before_hours() -> None:
    def retention(**texts: str) -> object:
        values = BROKER_SETTINGS.parse({k.replace("_", "."): v for k, v in texts.items()})
        resolve_defaults(values)
        return topic_defaults(values)["retention.ms"]

    assert retention() == 604_800_000
    assert retention(log_retention_hours="1") == 3_600_000
    assert retention(log_retention_hours="1", log_retention_minutes="5") == 300_000
    assert retention(log_retention_minutes="5", log_retention_ms="7") == 7
    assert retention(log_retention_hours="-1") == -1


def test_a_misspelt_name_finds_its_neighbour() -> None:
    assert BROKER_SETTINGS.nearest("log.retention.hour") == "log.retention.hours"
    assert BROKER_SETTINGS.nearest("completely.else") is None


@given(st.integers(-(2**63), 2**63 - 1))
def test_whole_numbers_print_and_parse_back(number: int) -> None:
    setting = TOPIC_SETTINGS["retention.bytes"]
    assert setting.parse(setting.print(number)) == number
