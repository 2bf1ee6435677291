"""The pages that are written from the code are those of this code."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "reference_pages.py"))


@pytest.mark.parametrize("page", SCRIPT["PAGES"])
def test_a_page_is_that_of_the_code(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if page == "reference/commands.md" and sys.version_info >= (3, 14):
        pytest.skip("argparse of Python 3.14 prints help otherwise")
    monkeypatch.setenv("COLUMNS", "100")
    committed = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert committed == SCRIPT["PAGES"][page](), f"docs/{page} is old: run `make reference`"
