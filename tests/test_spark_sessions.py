"""A process has one session of Spark: a test that starts one gets the shared one, and stops it for all that follow."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parent


def starts_session(source: str) -> bool:
    """Return whether code calls `local_session` or `getOrCreate` itself, not in a program that it writes."""
    called = {
        getattr(node.func, "id", None) or getattr(node.func, "attr", None)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
    }
    return bool(called & {"local_session", "getOrCreate"})


def test_no_test_starts_a_session_of_spark() -> None:
    found = [
        str(path.relative_to(TESTS))
        for path in sorted(TESTS.rglob("test_*.py"))
        if starts_session(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_start_of_a_session_is_found() -> None:
    assert starts_session("session = local_session('x', path, 'local[1]')")
    assert starts_session("SparkSession.builder.master('local[1]').getOrCreate()")
    assert not starts_session("PROGRAM = 'local_session()'")
