"""The files, folders, classes and functions that pages for contributors name exist; CONTRIBUTING: `test_readme`."""

from __future__ import annotations

import re

import pytest

from kavka.settings.broker import BROKER_SETTINGS
from support.code_blocks import ROOT

PAGES = [
    "SECURITY.md",
    "docs/explanation/architecture.md",
    "docs/explanation/packages.md",
    "docs/explanation/replication.md",
    "docs/explanation/simulation.md",
]
_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)*/?)`")
_DOTTED = re.compile(r"`kavka((?:\.\w+)+)`")
_FUNCTION_IN = re.compile(r"`(\w+)\.(\w+)` in `([\w/]+\.py)`")


TEXTS = [
    (page, re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL))
    for page in PAGES
]


def paths(text: str) -> list[str]:
    return [p for p in _PATH.findall(text) if "/" in p or p.endswith(".py")]


@pytest.fixture(scope="module")
def known() -> list[str]:
    folders = [ROOT / name for name in ("src", "tests", "docs", "config", "examples", "bench")]
    inside = [path for folder in folders for path in folder.rglob("*")]
    return [f"/{path.relative_to(ROOT)}" for path in [*ROOT.iterdir(), *inside]]


@pytest.mark.parametrize(("page", "text"), TEXTS, ids=PAGES)
def test_a_named_file_or_folder_exists(page: str, text: str, known: list[str]) -> None:
    """A path may begin at the folder that its sentence is about, and a module may be without its ending."""
    wanted = {path: f"/{path.rstrip('/')}" for path in paths(text)}
    assert [
        path
        for path, end in wanted.items()
        if not any(one.endswith((end, f"{end}.py")) for one in known)
    ] == []


@pytest.mark.parametrize(("page", "text"), TEXTS, ids=PAGES)
def test_a_named_module_or_name_of_it_exists(page: str, text: str) -> None:
    missing = []
    for dotted in _DOTTED.findall(text):
        if f"kavka{dotted}" in BROKER_SETTINGS:
            continue
        parts = dotted.strip(".").split(".")
        place = ROOT / "src" / "kavka"
        while parts and (place / parts[0]).is_dir():
            place /= parts.pop(0)
        module = place / f"{parts[0]}.py" if parts else place / "__init__.py"
        if parts and not module.is_file():
            module, rest = place / "__init__.py", parts
        else:
            rest = parts[1:]
        source = module.read_text(encoding="utf-8")
        if rest and not re.search(rf"\b{rest[0]}\b", source):
            missing.append(dotted)
    assert missing == []


def test_the_functions_of_the_way_of_a_request_exist() -> None:
    found = [row for _page, text in TEXTS for row in _FUNCTION_IN.findall(text)]
    assert len(found) >= 8
    for owner, function, path in found:
        source = (ROOT / "src" / "kavka" / path).read_text(encoding="utf-8")
        body = source.partition(f"\nclass {owner}")[2]
        assert re.search(rf"\n    (async )?def {function}\(", body), (owner, function, path)
