"""Tests import the product and what is shared for them, `support` and the three programs, and never one another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SHARED = ("support", "compat/kavka_compat", "chaos/kavka_chaos", "fuzz/kavka_fuzz")
FILES = sorted(TESTS.rglob("*.py"))


def imported(source: str) -> Iterator[str]:
    """Yield the module of each import, with a dot in front where it is relative."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def is_shared(path: Path) -> bool:
    return path.relative_to(TESTS).as_posix().startswith(tuple(f"{name}/" for name in SHARED))


def modules_beside(path: Path) -> set[str]:
    """Return the modules in the folder of a test, which Python would find if it were on the path."""
    return {other.stem for other in path.parent.glob("*.py")} - {"__init__"}


def refused(path: Path, source: str) -> list[str]:
    """Return the imports of a file that name a test, a conftest or a module beside a test."""
    beside = set() if is_shared(path) else modules_beside(path)
    return [
        name
        for name in imported(source)
        if name.split(".")[0] in {"tests", *beside}
        or (name.startswith(".") and not is_shared(path))
        or any(part == "conftest" or part.startswith("test_") for part in name.split("."))
    ]


def test_no_test_imports_a_test() -> None:
    found = {
        str(path.relative_to(TESTS)): names
        for path in FILES
        if (names := refused(path, path.read_text()))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "from tests.broker.test_groups import join",
        "from tests.broker.conftest import Served",
        "import conftest",
        "from .waiting import until",
        "def later():\n    from test_stories import play",
    ],
)
def test_an_import_of_a_test_is_found(source: str) -> None:
    assert len(refused(TESTS / "core" / "test_stories.py", source)) == 1


def test_shared_modules_may_be_imported() -> None:
    source = (
        "import pytest\nfrom support.waiting import until\nfrom kavka.broker.broker import Broker"
    )
    assert refused(TESTS / "broker" / "test_groups.py", source) == []
