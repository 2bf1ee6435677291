"""Names, types, defaults and bounds are those of Apache Kafka 3.9, from `ConfigDef`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from kavka.settings.broker import BROKER_SETTINGS
from kavka.settings.declaration import Scope, Setting, ValueType
from kavka.settings.topic import TOPIC_SETTINGS

CATALOGUES = {"broker": BROKER_SETTINGS, "topic": TOPIC_SETTINGS}


class Documented(NamedTuple):
    """A row of the table; empty where Kafka says nothing."""

    kind: str
    name: str
    type: str
    default: str
    bounds: str
    mode: str


def _documented() -> list[Documented]:
    text = (Path(__file__).parent / "kafka_3_9.tsv").read_text()
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return [Documented(*row, *[""] * (6 - len(row))) for row in rows]


DOCUMENTED = _documented()
NAMES = [f"{documented.kind}-{documented.name}" for documented in DOCUMENTED]
# Our own defaults, each for a reason that its declaration gives.
OTHER_DEFAULTS = {"listeners", "socket.send.buffer.bytes", "socket.receive.buffer.bytes"}
# Kafka takes these apart as text, where a list is what is meant.
LISTS = {"log.dirs", "listeners", "advertised.listeners", "listener.security.protocol.map"}
# Properties of Kafka's authorizer and quotas, which `ConfigDef` does not list.
ELSEWHERE = {
    "super.users",
    "allow.everyone.if.no.acl.found",
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}
# Those of Kafka 4.1 that go with what we have of its transactions.
LATER = {
    "add.partitions.to.txn.retry.backoff.ms": 20,
    "add.partitions.to.txn.retry.backoff.max.ms": 100,
    "transaction.two.phase.commit.enable": False,
}


def is_checked(setting: Setting) -> bool:
    """Return whether a setting has an effect, or may at least be changed at any time."""
    return setting.effective or setting.scope is not Scope.READ_ONLY


@pytest.mark.parametrize("documented", DOCUMENTED, ids=NAMES)
def test_every_setting_of_kafka_is_known_with_its_type(documented: Documented) -> None:
    setting = CATALOGUES[documented.kind][documented.name]
    assert setting.reported_type.name == documented.type
    assert setting.type is (ValueType.LIST if documented.name in LISTS else setting.reported_type)


@pytest.mark.parametrize("documented", DOCUMENTED, ids=NAMES)
def test_defaults_are_those_of_kafka(documented: Documented) -> None:
    setting = CATALOGUES[documented.kind][documented.name]
    if documented.name in OTHER_DEFAULTS:
        return
    shown = "null" if setting.default is None else setting.print(setting.default)
    theirs = documented.default.strip("[]").removeprefix("class ").replace(", ", ",").lower()
    assert shown is not None
    if setting.type is ValueType.DOUBLE:
        assert float(shown) == float(theirs)
    else:
        assert sorted(shown.lower().split(",")) == sorted(theirs.split(","))


@pytest.mark.parametrize(
    "documented",
    [t for t in DOCUMENTED if t.bounds.startswith("[") and is_checked(CATALOGUES[t.kind][t.name])],
    ids=lambda documented: documented.name,
)
def test_what_kafka_refuses_is_refused(documented: Documented) -> None:
    setting = CATALOGUES[documented.kind][documented.name]
    numbers = re.match(r"\[(-?\d+(?:\.\d+)?),\.\.\.(?:,(-?\d+(?:\.\d+)?))?\]", documented.bounds)
    for text in ("no such choice", "-9223372036854775809"):
        assert _refuses(setting, text)
    if numbers is not None:
        whole = setting.type is not ValueType.DOUBLE
        below = float(numbers[1]) - 1
        assert _refuses(setting, str(int(below) if whole else below))
        assert not _refuses(setting, numbers[1])
        if numbers[2] is not None:
            above = float(numbers[2]) + 1
            assert _refuses(setting, str(int(above) if whole else above))
            assert not _refuses(setting, numbers[2])


def _refuses(setting: Setting, text: str) -> bool:
    try:
        setting.parse(text)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize(
    "documented", [t for t in DOCUMENTED if t.kind == "broker"], ids=lambda t: t.name
)
def test_what_may_change_at_run_time_is_what_may_in_kafka(documented: Documented) -> None:
    assert BROKER_SETTINGS[documented.name].scope.value == (documented.mode or "read-only")


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_throttles_may_hold_for_all_brokers(side: str) -> None:
    assert BROKER_SETTINGS[f"{side}.replication.throttled.rate"].scope is Scope.CLUSTER_WIDE
    moves = BROKER_SETTINGS["replica.alter.log.dirs.io.max.bytes.per.second"]
    assert moves.scope is Scope.CLUSTER_WIDE


def test_there_is_no_setting_that_kafka_does_not_have() -> None:
    theirs = {(documented.kind, documented.name) for documented in DOCUMENTED}
    ours = {
        (kind, setting.name)
        for kind, catalogue in CATALOGUES.items()
        for setting in catalogue
        if not setting.name.startswith("kavka.")
    }
    assert ours - theirs == {("broker", name) for name in (*ELSEWHERE, *LATER)}


def test_defaults_of_later_settings_are_those_of_kafka_4_1() -> None:
    assert {name: BROKER_SETTINGS[name].default for name in LATER} == LATER
