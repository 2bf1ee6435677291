"""The page of settings says what the declarations say."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_make_settings_writes() -> None:
    page = runpy.run_path(str(ROOT / "scripts" / "settings_page.py"))["page"]()
    assert (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8") == page, (
        "run `make settings`"
    )
