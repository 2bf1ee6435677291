"""Code blocks of the pages, for the tests that run them."""

from __future__ import annotations

import re
from pathlib import Path

_HOW_TO = Path(__file__).parents[3] / "docs" / "how-to"


def blocks(page: str, test: str, language: str) -> list[str]:
    """Return the blocks of a how-to page that name the file of a test."""
    fence = rf"<!-- run by tests/spark/{Path(test).name} -->\n```{language}\n(.*?)^```"
    return re.findall(fence, (_HOW_TO / f"{page}.md").read_text(), re.S | re.M)
