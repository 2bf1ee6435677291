"""Tests wait for conditions (`support.waiting`); a sleep whose subject is time says so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
SUPPORT = TESTS / "support/waiting.py"
VIRTUAL = (
    "simulation/",
    "testing/history/test_in_simulation.py",
    "testing/test_simulated_",
    "testing/test_same_",
)
"""Tests whose loop jumps from one timer to the next."""
PACKAGES = ("compat/kavka_compat/", "fuzz/kavka_fuzz/")
"""Programs that run without `support`, too."""
REASON = re.compile(r"# .*(?:time: |virtual time)")


def sleeps(path: Path) -> Iterator[int]:
    """Go over the lines of calls of `sleep` with a time."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name == "sleep" and ast.unparse(node.args[0]) != "0":
            yield node.lineno


def test_a_sleep_says_that_its_subject_is_time() -> None:
    silent = []
    for path in TESTS.rglob("*.py"):
        name = str(path.relative_to(TESTS))
        if path == SUPPORT or name.startswith((*VIRTUAL, *PACKAGES)):
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        silent += [f"{name}:{line}" for line in sleeps(path) if not REASON.search(lines[line - 1])]
    assert silent == []
