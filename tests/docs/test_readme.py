"""README is short, and its figures are those of the page of benchmarks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


def test_no_cell_is_longer_than_twenty_words() -> None:
    cells = [
        cell for row in re.findall(r"^\|(.*)\|$", README, re.MULTILINE) for cell in row.split("|")
    ]
    assert not [cell for cell in cells if len(cell.split()) > 20]


def test_its_figures_were_measured() -> None:
    page = (ROOT / "docs" / "reference" / "benchmarks.md").read_text(encoding="utf-8")
    figures = re.findall(r"\| ([\d,.]+) (?:ms|MiB|records/s)(?= \|)", README)
    assert len(figures) >= 6
    assert not [figure for figure in figures if figure not in page]


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_links_of_a_page_outside_of_the_site_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert not [link for link in links if "://" not in link and not (ROOT / link).exists()]


def test_files_that_contributing_names_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z]+/[\w./-]*)`", text) + re.findall(r"an excerpt of (\S+)", text)
    assert len(named) > 30
    places = (ROOT, ROOT / "src" / "kavka")
    assert not [name for name in named if not any((place / name).exists() for place in places)]
