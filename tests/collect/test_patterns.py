"""The paths of patterns: those of glob, and an end where links make cycles."""

from __future__ import annotations

import glob
from pathlib import Path

import pytest

from kavka.collect.files.patterns import matching_paths


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a.log", "x/b.log", "x/y/c.log", "x/.hidden/d.log", "[z]/e.log", "x/y/.f.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "pattern",
    [
        "**/*.log",
        "*.log",
        "x/**/*.log",
        "x/**/y/*",
        "**/x/**/c.log",
        "none/**/*",
        "**/.f.log",
        "?/*",
    ],
)
@pytest.mark.parametrize("is_absolute", [False, True])
def test_the_paths_are_those_of_glob(tree: Path, pattern: str, is_absolute: bool) -> None:
    pattern = f"{tree}/{pattern}" if is_absolute else pattern
    assert matching_paths([pattern]) == set(glob.glob(pattern, recursive=True))


def test_two_stars_at_the_end_are_all_files_below(tree: Path) -> None:
    assert matching_paths(["x/**"]) == {"x/b.log", "x/y", "x/y/c.log"}


def test_links_that_make_cycles_end(tree: Path) -> None:
    for name in ("one", "two", "three"):
        (tree / "x" / name).symlink_to(tree, target_is_directory=True)
    (tree / "x" / "itself").symlink_to("itself")
    (tree / "x" / "nowhere").symlink_to("nothing")
    assert len(matching_paths([f"{tree}/**/*.log"])) == 4
