"""The recipes of docs/explanation/exactly-once.md keep what they promise, although they are killed at every line."""

from __future__ import annotations

import pytest

from kavka_compat.brokers import Broker
from kavka_compat.recipes import kill_at_every_line, recipe

pytestmark = pytest.mark.compat


@pytest.mark.long
def test_at_most_once_repeats_nothing(any_broker: Broker, fresh_name: str) -> None:
    outcome = kill_at_every_line("at-most-once", any_broker.bootstrap, fresh_name)
    assert outcome.unreached == []
    assert outcome.repeated == 0
    assert outcome.missing, "a kill after the commit loses what was to be done"


@pytest.mark.long
def test_at_least_once_loses_nothing(any_broker: Broker, fresh_name: str) -> None:
    outcome = kill_at_every_line("at-least-once", any_broker.bootstrap, fresh_name)
    assert outcome.unreached == []
    assert outcome.missing == set()
    assert outcome.repeated, "a kill before the commit repeats what was done"


@pytest.mark.parametrize(
    "fixture",
    [
        pytest.param("kavka_broker", id="kavka"),
        pytest.param("apache_kafka", id="apache", marks=pytest.mark.long),
    ],
)
def test_exactly_once_neither_repeats_nor_loses(
    request: pytest.FixtureRequest, fixture: str, fresh_name: str
) -> None:
    broker: Broker = request.getfixturevalue(fixture)
    outcome = kill_at_every_line("exactly-once", broker.bootstrap, fresh_name)
    lines = recipe("exactly-once").splitlines()
    unreached = {lines[number - 1].strip() for number in outcome.unreached}
    # Nothing fails here but the process, and not every poll finds nothing.
    assert unreached <= {
        "continue",
        "except AbortableError:",
        "producer.abort_transaction()",
        "consumer.rewind(batches)",
    }
    assert outcome.missing == set()
    assert outcome.repeated == 0
    assert len(outcome.invoices) == outcome.orders
