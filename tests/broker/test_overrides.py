"""Overrides of topics and brokers: accepted, stored and returned values."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.broker.configs.overrides import ConfigRefused
from kavka.broker.control.config_resources import check_broker_resource
from kavka.errors import ErrorCode
from kavka.settings.declaration import ValueType
from kavka.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
)
from kavka.wire.stored import znodes
from support.config_requests import BROKER, DELETE, SET, TOPIC, altered, described
from support.one_broker import Run, Served

DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 2, 3, 4, 5
RATE = "leader.replication.throttled.rate"
FOREIGN = {
    "log.dirs": "/elsewhere",
    "num.io.threads": "12",
    "their.plugin.token": "secret-value",
    "listener.name.inside.ssl.keystore.location": "/keys",
    "listener.name.inside.ssl.keystore.password": "encrypted",
}
"""Settings that a cluster may have stored before it came here."""


async def rows(served: Served, kind: int, name: str) -> dict[str, Any]:
    result = await described(served, kind, name)
    assert result.error_code == 0, result.error_message
    return {row.name: row for row in result.configs}


async def alter(served: Served, kind: int, entity: str, **changes: str | None) -> tuple[int, str]:
    """Set and, where there is no value, delete; names have `__` for dots."""
    settings = [
        (name.replace("__", "."), DELETE if value is None else SET, value)
        for name, value in changes.items()
    ]
    (response,) = await altered(served, (kind, entity, settings))
    return response.error_code, response.error_message or ""


async def replace(served: Served, kind: int, entity: str, overrides: dict[str, str]) -> int:
    configs = [
        AlterConfigsRequestConfig(name=name, value=value) for name, value in overrides.items()
    ]
    asked = AlterConfigsRequestResource(resource_type=kind, resource_name=entity, configs=configs)
    response = await served.send(AlterConfigsRequest(resources=[asked]))
    return int(response.responses[0].error_code)


async def store(served: Served, kind: str, entity: str, overrides: dict[str, str]) -> None:
    """Store what another program would have stored, and obey it."""
    path, data = znodes.config_path(kind, entity), znodes.encode_config(overrides)
    if await served.broker.registry.stat(path) is None:
        await served.broker.registry.create(path, data)
    else:
        await served.broker.registry.set(path, data)
    if kind == "topics":
        served.broker.dynamic_configs.topic_configured(entity, overrides)
    else:
        default = entity == znodes.DEFAULT_ENTITY
        served.broker.dynamic_configs.broker_configured(overrides, default=default)


async def stored(served: Served, kind: str, entity: str) -> dict[str, str]:
    data, _stat = await served.broker.registry.get(znodes.config_path(kind, entity))
    return znodes.decode_config(data)


# Brokers


def test_what_is_stored_does_not_stand_in_the_way_of_a_change(run: Run) -> None:
    async def story(served: Served) -> None:
        await store(served, "brokers", "0", FOREIGN)
        assert await alter(served, BROKER, "0", **{RATE: "1000"}) == (0, "")
        assert await stored(served, "brokers", "0") == {**FOREIGN, RATE: "1000"}
        assert served.broker.context.effective_configs.broker_integer(RATE) == 1000
        assert await replace(served, BROKER, "0", FOREIGN) == 0
        assert await stored(served, "brokers", "0") == FOREIGN

    run(story)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num.io.threads", "12"),
        ("num.network.threads", "4"),
        ("background.threads", "12"),
        ("num.recovery.threads.per.data.dir", "2"),
        ("log.preallocate", "true"),
        ("log.message.downconversion.enable", "false"),
        ("metric.reporters", "their.Reporter"),
        ("remote.log.index.file.cache.total.size.bytes", "100"),
        ("listener.name.inside.ssl.provider", "theirs"),
        ("listener.name.inside.num.network.threads", "4"),
        ("their.plugin.token", "secret-value"),
    ],
)
def test_what_kafka_lets_change_is_kept_with_a_warning(
    run: Run, caplog: pytest.LogCaptureFixture, name: str, value: str
) -> None:
    async def story(served: Served) -> None:
        assert await alter(served, BROKER, "0", **{name: value}) == (0, "")
        assert await stored(served, "brokers", "0") == {name: value}
        assert (await rows(served, BROKER, "0"))[name].config_source == DYNAMIC_BROKER

    run(story)
    (warning,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert warning == f"setting kept without effect while the broker runs name={name}"
    assert "secret-value" not in caplog.text


@pytest.mark.parametrize(
    ("entity", "name", "value", "reason"),
    [
        ("0", "log.dirs", "/x", "Cannot update these configs dynamically: Set(log.dirs)"),
        ("0", "broker.id", "7", "Cannot update these configs dynamically: Set(broker.id)"),
        ("0", "ssl.keystore.location", "/k", "for one listener, by its prefix"),
        ("", "listeners", "A://h:1", "Cannot update these configs at default cluster level"),
        ("", "listener.name.a.ssl.protocol", "TLS", "at default cluster level"),
        ("0", "listener.name.a.ssl.keystore.password", "secret-value", "secret not configured"),
        ("0", "listener.name.a.plain.sasl.jaas.config", "secret-value", "secret not configured"),
        ("", "listener.name.a.ssl.keystore.password", "secret-value", "at default cluster level"),
        ("0", "listener.name.a.num.network.threads", "x", "Not a number of type INT"),
        ("0", "num.io.threads", "0", "Value must be at least 1"),
        ("", "log.cleanup.policy", "delete,", "String must be one of: compact, delete"),
    ],
)
def test_what_kafka_refuses_is_refused(
    run: Run, entity: str, name: str, value: str, reason: str
) -> None:
    async def story(served: Served) -> None:
        code, message = await alter(served, BROKER, entity, **{name: value})
        assert code == ErrorCode.INVALID_REQUEST
        assert reason in message
        assert "secret-value" not in message
        assert served.broker.context.effective_configs.broker_overrides(default=entity == "") == {}

    run(story)


def test_undeclared_overrides_are_reported_without_their_values(run: Run) -> None:
    async def story(served: Served) -> None:
        await store(served, "brokers", "0", FOREIGN)
        await store(served, "brokers", znodes.DEFAULT_ENTITY, {"their.plugin.size": "7"})
        here = await rows(served, BROKER, "0")
        reported = {
            name: (row.value, row.is_sensitive, row.config_type, row.config_source)
            for name, row in here.items()
            if name.startswith(("their.", "listener.name."))
        }
        unknown, secret = ValueType.UNKNOWN, ValueType.PASSWORD
        prefix = "listener.name.inside.ssl.keystore"
        assert reported == {
            "their.plugin.token": (None, True, unknown, DYNAMIC_BROKER),
            "their.plugin.size": (None, True, unknown, DYNAMIC_DEFAULT),
            f"{prefix}.location": ("/keys", False, ValueType.STRING, DYNAMIC_BROKER),
            f"{prefix}.password": (None, True, secret, DYNAMIC_BROKER),
        }
        assert [s.value for s in here["their.plugin.token"].synonyms] == [None]
        everywhere = await rows(served, BROKER, "")
        assert [row.name for row in everywhere.values()] == ["their.plugin.size"]
        assert everywhere["their.plugin.size"].value is None

    run(story)


def test_an_undeclared_setting_of_a_topic_is_returned_and_stays(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t")
        await store(served, "topics", "t", {"their.setting": "secret-value"})
        row = (await rows(served, TOPIC, "t"))["their.setting"]
        assert (row.value, row.is_sensitive, row.config_source) == (None, True, 1)
        assert await alter(served, TOPIC, "t", retention__ms="5000") == (0, "")
        assert "their.setting" in await stored(served, "topics", "t")
        code, _message = await alter(served, TOPIC, "t", their__setting="other")
        assert code == ErrorCode.INVALID_CONFIG

    run(story)


@pytest.mark.parametrize(
    "name", [RATE, "follower" + RATE[6:], "replica.alter.log.dirs.io.max.bytes.per.second"]
)
def test_a_throttle_of_all_brokers_holds_where_none_is_the_brokers_own(run: Run, name: str) -> None:
    async def story(served: Served) -> None:
        assert await alter(served, BROKER, "", **{name: "1000"}) == (0, "")
        assert served.broker.context.effective_configs.broker_integer(name) == 1000
        assert (await rows(served, BROKER, "0"))[name].config_source == DYNAMIC_DEFAULT
        assert await alter(served, BROKER, "0", **{name: "2000"}) == (0, "")
        assert served.broker.context.effective_configs.broker_integer(name) == 2000

    run(story)


def test_a_setting_without_value_is_null(run: Run) -> None:
    async def story(served: Served) -> None:
        reported = await rows(served, BROKER, "0")
        for name in (
            "log.retention.ms",
            "log.roll.ms",
            "log.roll.jitter.ms",
            "log.flush.interval.ms",
            "advertised.listeners",
        ):
            row = reported[name]
            assert (row.value, row.config_source, row.synonyms) == (None, DEFAULT, []), name
        assert (reported["listeners"].value, reported["listeners"].config_type) == (
            "PLAINTEXT://127.0.0.1:0",
            ValueType.STRING,
        )
        assert reported["sasl.login.class"].config_type == ValueType.CLASS
        assert (
            served.broker.context.effective_configs.broker_integer("log.retention.ms")
            == 604_800_000
        )

    run(story)


def test_names_of_one_meaning_are_synonyms_of_the_stronger_one(run: Run) -> None:
    async def story(served: Served) -> None:
        await alter(served, BROKER, "0", log__retention__ms="5000")
        reported = (await rows(served, BROKER, "0"))["log.retention.ms"]
        assert [(s.name, s.value, s.source) for s in reported.synonyms] == [
            ("log.retention.ms", "5000", DYNAMIC_BROKER),
            ("log.retention.hours", "24", STATIC),
            ("log.retention.hours", "168", DEFAULT),
        ]

    run(story, log__retention__hours="24")


# Topics


@pytest.mark.parametrize(
    "name", ["remote.storage.enable", "remote.log.copy.disable", "remote.log.delete.on.disable"]
)
def test_tiered_storage_is_refused_but_not_what_is_stored_of_it(run: Run, name: str) -> None:
    async def story(served: Served) -> None:
        refused = await served.create("new", **{name: "true"})
        assert refused.error_code == ErrorCode.INVALID_CONFIG
        assert "no tiered storage" in refused.error_message
        assert (await served.create("t", **{name: "false"})).error_code == 0
        code, message = await alter(served, TOPIC, "t", **{name: "true"})
        assert code == ErrorCode.INVALID_CONFIG
        assert "no tiered storage" in message
        await store(served, "topics", "t", {name: "true"})
        assert await alter(served, TOPIC, "t", retention__ms="5000") == (0, "")
        assert await stored(served, "topics", "t") == {name: "true", "retention.ms": "5000"}

    run(story)


def test_a_topic_is_not_kept_from_compaction_for_longer_than_until_it_must_be(run: Run) -> None:
    async def story(served: Served) -> None:
        refused = await served.create("new", min__compaction__lag__ms="1001")
        assert refused.error_code == ErrorCode.INVALID_CONFIG
        assert "min.compaction.lag.ms (1001) is more than max.compaction.lag.ms (1000)" in (
            refused.error_message
        )
        longer = {"max.compaction.lag.ms": "2000", "min.compaction.lag.ms": "1001"}
        assert (await served.create("t", **longer)).error_code == 0
        code, _message = await alter(served, TOPIC, "t", max__compaction__lag__ms=None)
        assert code == ErrorCode.INVALID_CONFIG
        conflict = {"min.compaction.lag.ms": "9000"}
        await store(served, "topics", "t", conflict)
        assert await alter(served, TOPIC, "t", retention__ms="5000") == (0, "")

    run(story, log__cleaner__max__compaction__lag__ms="1000")


def test_brokers_may_not_give_topics_such_a_conflict(run: Run) -> None:
    async def story(served: Served) -> None:
        code, message = await alter(
            served, BROKER, "", log__cleaner__max__compaction__lag__ms="4999"
        )
        assert code == ErrorCode.INVALID_REQUEST
        assert "is more than log.cleaner.max.compaction.lag.ms (4999)" in message

    run(story, log__cleaner__min__compaction__lag__ms="5000")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("leader.replication.throttled.replicas", "*,0:1", "Invalid value [*, 0:1] for"),
        ("cleanup.policy", "delete,", "String must be one of: compact, delete"),
        ("min.cleanable.dirty.ratio", "nan", "Not a number of type DOUBLE"),
        ("message.format.version", "abc", "not a valid version"),
    ],
)
def test_a_topic_does_not_get_what_kafka_would_not_start_with(
    run: Run, name: str, value: str, reason: str
) -> None:
    async def story(served: Served) -> None:
        refused = await served.create("t", **{name: value})
        assert refused.error_code == ErrorCode.INVALID_CONFIG
        assert reason in refused.error_message

    run(story)


@pytest.mark.parametrize("name", ["one", "1" * 5000])
def test_a_broker_resource_is_named_by_a_number(name: str) -> None:
    with pytest.raises(ConfigRefused, match="Broker id must be an integer, but it is: ") as refused:
        check_broker_resource(name, 1)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
