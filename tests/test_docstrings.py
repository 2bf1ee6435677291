"""Docstrings say what a thing is or does, so none begins with a question word; replaced words stay out."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
QUESTION = re.compile(r"(?:Who|Whom|Whose|What|How|Whether|Where|When|Which|Why)\b")
VAGUE = re.compile(r"(?:Let|Have|Know|Tell|Hear|Make sure|Give(?! up)|Learn|Mind)\b")
REPLACED = re.compile(
    r"\b(?:told|whoever|somebody|anew|for ever|doors|reign|soil|bury|unshown|both_sides|remembering)\b",
    re.IGNORECASE,
)
"""Words of `docs/glossary.md` that are out."""
SUBJECTS = (
    "broker",
    "cli",
    "client",
    "core",
    "net",
    "registry",
    "settings",
    "simulation",
    "storage",
    "wire",
)
"""Packages whose docstrings begin with a verb of the field."""
RAISED = re.compile(r"\b[Rr]aises? ([A-Z]\w+(?:(?:, | or |, or )[A-Z]\w+)*)")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def docstrings(tree: ast.AST) -> Iterator[str]:
    """Return the docstrings of modules, classes and functions, and the texts below fields and constants."""
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, Documented) else None
        if text is not None:
            yield text
        for field, below in pairwise(node.body if isinstance(node, Documented) else []):
            if isinstance(field, ast.Assign | ast.AnnAssign) and isinstance(below, ast.Expr):
                yield str(getattr(below.value, "value", ""))


def test_no_docstring_begins_with_a_question_word() -> None:
    found = []
    count = 0
    for path in [
        p for folder in ("src", "tests", "bench", "scripts") for p in (ROOT / folder).rglob("*.py")
    ]:
        for text in docstrings(parsed(path)):
            count += 1
            if QUESTION.match(text):
                found.append(f"{path.relative_to(ROOT)}: {text.splitlines()[0]}")
    assert count > 8000
    assert found == []


def test_replaced_words_stay_out_of_code_and_pages() -> None:
    sources = [p for p in SOURCE.rglob("*") if p.suffix in (".py", ".pyi", ".pyx", ".pxi", ".html")]
    pages = [
        p for p in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")] if p.name != "glossary.md"
    ]
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in [*sources, *pages]
        for match in REPLACED.finditer(path.read_text(encoding="utf-8"))
    ]
    assert len(sources) > 900
    assert found == []


def test_docstrings_begin_with_a_verb_of_the_field() -> None:
    found = []
    for subject in SUBJECTS:
        for path in (SOURCE / "kavka" / subject).rglob("*.py"):
            for node in ast.walk(parsed(path)):
                text = ast.get_docstring(node) if isinstance(node, Documented) else None
                if text is not None and VAGUE.match(text):
                    found.append(f"{path.relative_to(SOURCE)}: {text.splitlines()[0]}")
    assert found == []


def test_exceptions_that_docstrings_name_exist() -> None:
    """A list behind the word Raise has names of exceptions, until another word comes."""
    known, named = set(dir(builtins)), []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                known.add(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                known.update((name.asname or name.name) for name in node.names)
            elif isinstance(node, ast.Assign):
                known.update(one.id for one in node.targets if isinstance(one, ast.Name))
            text = ast.get_docstring(node) if isinstance(node, Documented) else None
            for listed in RAISED.findall(text or ""):
                named += [
                    (path.relative_to(SOURCE), name) for name in re.findall(r"[A-Z]\w+", listed)
                ]
    assert len(named) > 500
    assert [(str(path), name) for path, name in named if name not in known] == []
