"""The code blocks of pages of documentation, with the comments above them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("python", "sh", "console", "sql")
"""Languages of blocks that are run, by whatever test."""
DATA = ("json", "mermaid", "promql", "properties", "text", "toml", "yaml")

_FENCE = re.compile(r"^ *```")
_COMMENT = re.compile(r"^ *<!-- (.*) -->$")


class Block(NamedTuple):
    """A code block of a page."""

    page: Path
    line: int
    language: str
    comment: str
    """The text of the comment above it, or nothing."""
    text: str

    @property
    def name(self) -> str:
        """Return page and line."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_run_here(self) -> bool:
        """Return whether this module runs it."""
        return self.language in ("python", "sh") and self.comment in ("", "pytest")


def blocks(page: Path) -> Iterator[Block]:
    """Return the blocks of a page, in order."""
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
    before = ""
    for number, line in lines:
        if _FENCE.match(line):
            indent = len(line) - len(line.lstrip())
            language = line.strip().removeprefix("```").partition(" ")[0]
            text: list[str] = []
            for _, inside in lines:
                if _FENCE.match(inside):
                    break
                text.append(inside[indent:])
            comment = _COMMENT.match(before)
            said = comment[1] if comment else ""
            yield Block(page, number, language, said, "\n".join(text) + "\n")
        before = line
