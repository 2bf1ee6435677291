"""docs/reference/spark.md names a test for each line of the failure table, and has a line for each of its tests."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "reference" / "spark.md"
TABLE = ("kills", "clusters", "brokers", "chaos")


def _tests(pattern: str) -> set[str]:
    found: set[str] = set()
    for path in HERE.glob(pattern):
        found.update(re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE))
    return found


def test_the_failure_table_and_its_tests_are_the_same() -> None:
    document = DOCUMENT.read_text()
    named = set(re.findall(r"`(test_\w+)`", document))
    assert not named - _tests("test_*.py"), "in the document, but no test"
    written = set[str]().union(*(_tests(f"test_exactly_once_{part}.py") for part in TABLE))
    assert not written - named, "a test without its line in the document"
