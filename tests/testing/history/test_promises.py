"""The table of what is allowed."""

from __future__ import annotations

from pathlib import Path

from kavka.testing.history import ANOMALIES, Promises
from kavka.testing.history.promises import RULES, allowed_because, table

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "testing.md"


def test_every_anomaly_has_a_rule_and_a_name_of_its_own() -> None:
    names = [kind.name for kind in ANOMALIES]
    assert sorted(names) == sorted(RULES)
    assert len(set(names)) == len(names)


def test_with_the_strongest_promises_only_missing_isolation_is_allowed() -> None:
    allowed = {kind.name for kind in ANOMALIES if allowed_because(kind, Promises())}
    assert allowed == {"send-skip", "int-send-skip", "G0", "G1c", "G-single", "G2"}


def test_the_documentation_shows_the_table_as_it_is() -> None:
    assert table() in DOCS.read_text()
