"""The limit that holds, and the entities that may have one: the eight levels beside an oracle, and Kafka's rules."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.core.quota.alterations import (
    Component,
    InvalidAlteration,
    QuotaFilter,
    QuotaOp,
    altered,
    entity_of,
    java_double,
    limits_in,
    parts_of,
    quotas_in,
)
from kavka.core.quota.entities import DEFAULT, Match, Name, QuotaEntity, QuotaKey, QuotaLimits
from support.examples import examples

_NAMES: list[Name] = [None, DEFAULT, "a", "b"]
_ENTITIES = [QuotaEntity(user, client) for user, client in product(_NAMES, _NAMES)]
_USER = QuotaEntity("alice")
_IP = QuotaEntity(ip="10.0.0.7")


def specificity(entity: QuotaEntity) -> tuple[int, int]:
    """Return how near an entity is: a named user before the default one before none, then the client."""
    rank = {str: 2, type(DEFAULT): 1, type(None): 0}
    client = {2: 3, 1: 2, 0: 1}[rank[type(entity.client_id)]]
    return rank[type(entity.user)], client


@given(st.sets(st.sampled_from(_ENTITIES[1:])), st.sampled_from("abc"), st.sampled_from("abc"))
@settings(max_examples=examples(300))
def test_the_most_specific_of_all_that_fit_limits_a_client(
    present: set[QuotaEntity], user: str, client: str
) -> None:
    limits = {entity: float(at) for at, entity in enumerate(_ENTITIES) if entity in present}
    fitting = [
        entity
        for entity in limits
        if entity.user in (None, DEFAULT, user) and entity.client_id in (None, DEFAULT, client)
    ]
    found = QuotaLimits(limits).match(user, client)
    if not fitting:
        assert found is None
        return
    nearest = max(fitting, key=specificity)
    key = QuotaKey(
        None if nearest.user is None else user, None if nearest.client_id is None else client
    )
    assert found == Match(key, limits[nearest])


def test_a_default_holds_for_a_client_without_a_name() -> None:
    limits = QuotaLimits({QuotaEntity(None, DEFAULT): 5.0})
    assert limits.match("ANONYMOUS", "") == Match(QuotaKey(None, ""), 5.0)


@pytest.mark.parametrize(
    "parts",
    [
        [("user", "alice")],
        [("user", None), ("client-id", "c")],
        [("client-id", None)],
        [("ip", "10.0.0.7")],
        [("ip", None)],
        [("user", "<default>")],
    ],
)
def test_an_entity_has_the_parts_that_it_is_made_of(parts: list[tuple[str, str | None]]) -> None:
    assert parts_of(entity_of(parts)) == parts


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "Invalid empty client quota entity"),
        ([("user", "")], "Empty user not supported"),
        ([("group", "g")], "Unhandled client quota entity type: group"),
        ([("user", "a"), ("user", "b")], "given twice"),
        ([("user", "a"), ("ip", "10.0.0.1")], "IP entity should not be used with user/client ID"),
        ([("ip", "not-a-host")], "not-a-host is not a valid IP"),
    ],
)
def test_an_impossible_entity_is_refused(parts: list[tuple[str, str | None]], message: str) -> None:
    with pytest.raises(InvalidAlteration, match=message):
        entity_of(parts)


def test_an_alteration_sets_and_removes_and_keeps_what_is_not_a_quota() -> None:
    before = {"SCRAM-SHA-256": "salt=...", "consumer_byte_rate": "5"}
    ops = [
        QuotaOp("producer_byte_rate", 1024.0),
        QuotaOp("request_percentage", 12.5),
        QuotaOp("consumer_byte_rate", None),
        QuotaOp("never_set", None),
    ]
    after = altered(_USER, before, ops)
    assert after == {
        "SCRAM-SHA-256": "salt=...",
        "producer_byte_rate": "1024",
        "request_percentage": "12.5",
    }
    assert quotas_in(_USER, after) == {"producer_byte_rate": 1024.0, "request_percentage": 12.5}


@pytest.mark.parametrize(
    ("entity", "key", "value", "message"),
    [
        (
            _USER,
            "connection_creation_rate",
            1.0,
            "Invalid configuration key connection_creation_rate",
        ),
        (_USER, "bytes", 1.0, "Invalid configuration key bytes"),
        (_IP, "producer_byte_rate", 1.0, "Invalid configuration key producer_byte_rate"),
        (_USER, "producer_byte_rate", 1.5, "producer_byte_rate must be a LONG value"),
        (_USER, "producer_byte_rate", 1e19, "producer_byte_rate must be a LONG value"),
        (_IP, "connection_creation_rate", 3e9, "connection_creation_rate must be a INT value"),
        (_USER, "producer_byte_rate", -1.0, "producer_byte_rate must be greater than 0"),
        (_USER, "request_percentage", 0.0, "request_percentage must be greater than 0"),
        (_USER, "request_percentage", float("inf"), "must be a DOUBLE value"),
        (_USER, "producer_byte_rate", float("nan"), "must be a LONG value"),
    ],
)
def test_an_impossible_quota_is_refused(
    entity: QuotaEntity, key: str, value: float, message: str
) -> None:
    with pytest.raises(InvalidAlteration, match=message):
        altered(entity, {}, [QuotaOp(key, value)])


def test_an_address_may_be_shut_out() -> None:
    assert altered(_IP, {}, [QuotaOp("connection_creation_rate", 0.0)]) == {
        "connection_creation_rate": "0"
    }


def test_stored_quotas_that_limit_nothing_are_ignored() -> None:
    quotas = {"producer_byte_rate": 0.0, "consumer_byte_rate": -5.0, "request_percentage": 1.0}
    assert limits_in(_USER, quotas) == {"request_percentage": 1.0}
    assert limits_in(_IP, {"connection_creation_rate": 0.0}) == {"connection_creation_rate": 0.0}


def any_of(*names: Name) -> frozenset[Name]:
    return frozenset(names)


@pytest.mark.parametrize(
    ("components", "is_strict", "found"),
    [
        ([], False, ["alice", "alice+c", "d", "c", "ip"]),
        ([], True, []),
        ([Component("user", any_of("alice"))], False, ["alice", "alice+c"]),
        ([Component("user", any_of("alice"))], True, ["alice"]),
        ([Component("user", any_of(DEFAULT))], False, ["d"]),
        ([Component("user", None)], False, ["alice", "alice+c", "d"]),
        ([Component("user", None)], True, ["alice", "d"]),
        ([Component("user", None), Component("client-id", None)], True, ["alice+c"]),
        ([Component("client-id", any_of("c"))], True, ["c"]),
        ([Component("ip", None)], True, ["ip"]),
        ([Component("ip", any_of(DEFAULT))], True, []),
    ],
)
def test_a_filter_finds_what_has_its_parts(
    components: list[Component], is_strict: bool, found: list[str]
) -> None:
    entities = {
        "alice": _USER,
        "alice+c": QuotaEntity("alice", "c"),
        "d": QuotaEntity(DEFAULT),
        "c": QuotaEntity(None, "c"),
        "ip": _IP,
    }
    wanted = QuotaFilter(components, is_strict=is_strict)
    assert [name for name, entity in entities.items() if wanted.matches(entity)] == found


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10.0, "10.0"),
        (12.5, "12.5"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (1e7, "1.0E7"),
        (123456789.0, "1.23456789E8"),
        (1e22, "1.0E22"),
        (1.5e-7, "1.5E-7"),
        (9999999.5, "9999999.5"),
    ],
)
def test_numbers_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text
    assert float(text) == value
