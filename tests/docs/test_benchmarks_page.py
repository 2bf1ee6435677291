"""The page of benchmarks and its plots are those that the published results give."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "benchmarks_page.py"))
WRITTEN: dict[Path, str] = SCRIPT["written"](SCRIPT["results"]())


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_a_file_is_as_its_results_give_it(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == WRITTEN[path], "run `make bench-report`"


def test_each_benchmark_has_a_published_result_or_the_page_says_that_it_has_none() -> None:
    page, published = WRITTEN[SCRIPT["PAGE"]], SCRIPT["results"]()
    assert published.keys() <= SCRIPT["BENCHMARKS"].keys()
    for name, benchmark in SCRIPT["BENCHMARKS"].items():
        assert benchmark.title in page
        assert (f"## {benchmark.title}\n" in page) == (name in published)


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        ({"name": "apache", "quick": True}, "a quick run is not published"),
        ({"name": "other"}, "no benchmark of the page has the name 'other'"),
        ({}, "no benchmark of the page has the name None"),
    ],
)
def test_a_result_that_is_not_for_the_page_is_refused(
    tmp_path: Path, result: dict[str, Any], sentence: str
) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result))
    with pytest.raises(ValueError, match=sentence):
        SCRIPT["publish"](path)


def test_a_ratio_of_a_percentage_or_of_nothing_is_not_shown() -> None:
    ratio_of = SCRIPT["ratio_of"]
    assert ratio_of({"unit": "%", "apache": [2.0], "kavka": [4.0]}) is None
    assert ratio_of({"unit": "ms", "apache": [0.0], "kavka": [1.0]}) is None
    assert ratio_of({"unit": "ms", "apache": [1.0, 2.0, 9.0], "kavka": [4.0]}) == 2.0
