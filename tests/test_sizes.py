"""A function fits a screen, and a module is one idea: at most 60 and 600 lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("src", "tests", "bench", "scripts", "examples")
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 600


def modules() -> list[Path]:
    """Return the modules of the project, its tests and its tools."""
    return [path for place in PLACES for path in (ROOT / place).rglob("*.py")]


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the name and the length of each function of a module, its docstring and decorators excluded."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            assert node.end_lineno is not None
            yield (
                f"{path.relative_to(ROOT)}:{node.lineno} {node.name}",
                node.end_lineno - first.lineno + 1,
            )


def test_no_function_is_longer_than_a_screen() -> None:
    found = [each for path in modules() for each in functions(path)]
    assert len(found) > 5000
    assert [each for each in found if each[1] > MAX_FUNCTION_LINES] == []


def test_no_file_is_too_long() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in modules()
    }
    assert [path for path, lines in lengths.items() if lines > MAX_FILE_LINES] == []
