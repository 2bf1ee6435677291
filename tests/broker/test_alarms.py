"""docs/how-to says of every warning and error of a broker what it means."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("broker", "storage", "registry", "net", "cli")
ALARMS = ("warning", "error", "exception")
MAY_ALARM = re.compile(r"\.(?:warning|error|exception|log)\(|WatchLoop\(|ChangeNotifications\(")
SAID_BY_OTHERS = {"self._failure_message", "failure_message"}
"""Log messages that a class gets as arguments: those of its callers are checked."""


def alarms() -> Iterator[tuple[str, str]]:
    """Yield where something is said at *warning* or *error*, and the words of it before the first value."""
    for package in PACKAGES:
        for path in sorted((ROOT / "src/kavka" / package).rglob("*.py")):
            text = path.read_text()
            if not MAY_ALARM.search(text):
                continue
            tree = ast.parse(text)
            for node in ast.walk(tree):
                if isinstance(node, ast.Call):
                    for said in sayings(node, tree):
                        words = re.sub(r"\s*\S*[=%].*", "", said)
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", words


def sayings(call: ast.Call, tree: ast.Module) -> list[str]:
    """Return what a call says to the operator: more than one when it takes its words from a variable."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="log" | "logger"), attr=attr) if attr in ALARMS:
            said = call.args[0]
        case ast.Attribute(value=ast.Name(id="log" | "logger"), attr="log"):
            said = call.args[1]
        case ast.Name(id="WatchLoop" | "ChangeNotifications"):
            said = call.args[2]
        case _:
            return []
    match said:
        case ast.Constant(value=str(words)):
            return [words] if not words.startswith("%s reason=") else []
        case ast.Name(id=name) if name not in SAID_BY_OTHERS:
            values = [
                node.value.value
                for node in ast.walk(tree)
                if isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and node.targets[0].id == name
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ]
            assert values, f"{name} has no value that can be read here"
            return values
        case _:
            assert ast.unparse(said) in SAID_BY_OTHERS, ast.unparse(said)
            return []


@pytest.fixture(scope="module")
def documented() -> str:
    pages = ("monitor.md", "recover.md")
    return "".join((ROOT / "docs/how-to" / page).read_text() for page in pages)


@pytest.mark.parametrize(("where", "words"), list(alarms()))
def test_an_alarm_is_explained(where: str, words: str, documented: str) -> None:
    assert words, f"{where} begins with a value"
    assert words in documented, f"{where} says {words!r}"


def test_alarms_are_found() -> None:
    found = set(alarms())
    assert len(found) > 60
    assert {where.split("/")[2] for where, _words in found} == set(PACKAGES)
