"""A fixed part of `make fuzz`: no request of a megabyte keeps the loop busy or makes the broker grow."""

from __future__ import annotations

import pytest

from kavka.broker.requests.served_apis import SUPPORTED_APIS
from kavka.wire.apis import ApiKey
from kavka_fuzz.recipes import Recipe
from kavka_fuzz.report import table
from kavka_fuzz.search import MOST_GROWTH_MB, MOST_LOOP_MS, Finding, Search
from kavka_fuzz.target import BrokerFailed, Cost, Target

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(600)]

SEED = 17
PLAIN, OTHERS = 70, 20
"""Numbers of recipes, about 40 s on two cores: the same requests are sent however fast the machine is."""
HEARTBEAT = Recipe(ApiKey.HEARTBEAT, 4, 100)


def test_no_request_of_a_megabyte_costs_too_much(target: Target) -> None:
    said: list[str] = []
    search = Search(target, SEED, say=said.append)
    for recipe in search.fixed(PLAIN, OTHERS):
        search.send(recipe)
    wrong = [found for found in map(search.confirmed, search.worst()) if found.reasons]
    recipes = [found.recipe.dump() for found in wrong]
    tracebacks = [text for found in wrong for text in found.cost.tracebacks]
    assert not wrong, "\n".join([table(wrong, recipes), *tracebacks, *said])


def test_fixed_part_is_the_same_each_time_and_has_every_api(target: Target) -> None:
    first, second = (list(Search(target, SEED).fixed(PLAIN, OTHERS)) for _ in range(2))
    assert first == second
    assert len(first) == PLAIN + OTHERS
    # SaslHandshake has one short string, with which no frame is filled (`test_sasl_frames` sends it).
    assert {recipe.api for recipe in first[:PLAIN]} == set(SUPPORTED_APIS) - {ApiKey.SASL_HANDSHAKE}


def test_cost_of_a_request_is_measured(target: Target) -> None:
    genes: dict[str, str | int] = {"groups[]": "count"}
    recipe = Recipe(ApiKey.DESCRIBE_GROUPS, 4, 100_000, "groups", genes)
    search = Search(target, SEED, say=lambda text: None)
    cost = search.tried(recipe).cost
    assert cost.outcome == "answered"
    assert cost.loop_ms > 1
    assert cost.wall_ms > 0
    assert cost.bytes == pytest.approx(100_000, abs=100)


def test_broker_that_has_ended_is_a_finding_and_another_is_started(target: Target) -> None:
    search = Search(target, SEED, say=lambda text: None)
    target.process.kill()
    finding = search.send(HEARTBEAT)
    assert finding.failure
    assert search.send(HEARTBEAT).reasons == []


def test_lost_record_fails_the_check(target: Target) -> None:
    target.check()
    target.process.stop()
    for segment in (target.home / "logs" / "kept-0").glob("*.log"):
        segment.write_bytes(b"")
    target.resume()
    with pytest.raises(BrokerFailed):
        target.check()


def test_limits_are_the_rule() -> None:
    large = Cost(bytes=10_000_000, loop_ms=5_000, growth_mb=500)
    small = Cost(bytes=1_000_000, loop_ms=MOST_LOOP_MS + 1, growth_mb=MOST_GROWTH_MB + 1)
    assert not Finding(HEARTBEAT, large).reasons
    assert len(Finding(HEARTBEAT, small).reasons) == 2
    assert not Finding(HEARTBEAT, Cost(1_000_000, MOST_LOOP_MS, growth_mb=MOST_GROWTH_MB)).reasons
    assert Finding(HEARTBEAT, Cost(tracebacks=["Traceback"])).reasons


def test_time_and_memory_must_show_again_on_a_new_broker(target: Target) -> None:
    search = Search(target, SEED, say=lambda text: None)
    once = Finding(HEARTBEAT, Cost(1_000, MOST_LOOP_MS * 10, growth_mb=MOST_GROWTH_MB * 10))
    assert not search.confirmed(once).reasons
