"""Docstrings say what a thing is or does, so none begins with a question word."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
QUESTION = re.compile(r"(?:Who|Whom|Whose|What|How|Whether|Where|When|Which|Why)\b")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def test_no_docstring_begins_with_a_question_word() -> None:
    found = []
    count = 0
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, Documented) else None
            count += text is not None
            if text is not None and QUESTION.match(text):
                found.append(f"{path.relative_to(SOURCE)}: {text.splitlines()[0]}")
    assert count > 5000
    assert found == []
