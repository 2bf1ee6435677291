"""docs/operations.md says of every warning and error of a broker what it means."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("broker", "storage", "registry")
ALARMS = ("warning", "error", "exception")


def alarms() -> Iterator[tuple[str, str]]:
    """Yield where something is said at *warning* or *error*, and the words of it before the first value."""
    for package in PACKAGES:
        for path in sorted((ROOT / "src/kavka" / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in ALARMS
                    and isinstance(node.func.value, ast.Name)
                    and node.func.value.id in ("log", "logger")
                    and isinstance(node.args[0], ast.Constant)
                ):
                    words = re.sub(r"\s*\S*[=%].*", "", str(node.args[0].value))
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", words


@pytest.fixture(scope="module")
def documented() -> str:
    return (ROOT / "docs/operations.md").read_text()


@pytest.mark.parametrize(("where", "words"), list(alarms()))
def test_an_alarm_is_explained(where: str, words: str, documented: str) -> None:
    assert words, f"{where} begins with a value"
    assert words in documented, f"{where} says {words!r}"


def test_alarms_are_found() -> None:
    assert len(set(alarms())) > 60
