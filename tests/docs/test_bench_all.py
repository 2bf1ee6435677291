"""`make bench-all` runs targets that exist, and publishes whole runs only."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> dict[str, object]:
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        return runpy.run_path(str(ROOT / "bench" / "all.py"))
    finally:
        sys.path.remove(str(ROOT / "bench"))


def test_each_target_is_in_the_makefile(script: dict[str, object]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = script["TARGETS"]
    assert isinstance(targets, tuple)
    assert [target for target in targets if f"\n{target}: " not in makefile] == []


def test_only_whole_runs_of_known_benchmarks_are_published(
    script: dict[str, object], tmp_path: Path
) -> None:
    results = {
        "whole": {"name": "load", "quick": False, "rounds": 5},
        "quick": {"name": "load", "quick": True, "rounds": 5},
        "short": {"name": "load", "quick": False, "rounds": 2},
        "ended early": {"name": "load", "quick": False, "rounds": 5, "missing": ["cold"]},
        "other": {"name": "lake", "quick": False, "rounds": 5},
    }
    for name, result in results.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(result))
    publishable = script["publishable"]
    assert callable(publishable)
    assert publishable(tmp_path, 0, {"load"}) == [tmp_path / "whole.json"]
    assert publishable(tmp_path, float("inf"), {"load"}) == []
