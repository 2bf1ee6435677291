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
        (
            {"name": "apache", "rounds": 5, "missing": ["latency"]},
            r"a run that ended without \['latency'\] is not published",
        ),
        ({"name": "apache", "rounds": 2}, "a median of fewer than three rounds is not published"),
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


def test_the_median_of_two_samples_has_its_range() -> None:
    line = {"name": "produce", "unit": "records/s", "apache": [1.0, 3.0], "kavka": [4.0]}
    page = SCRIPT["page"]({"apache": {**_RUN, "lines": [{**line, "verdict": ""}]}})
    assert "| produce | records/s | 2 (1-3) | 4 | 2.00 |  |" in page


def test_processor_time_is_beside_that_of_the_loop_with_all_its_samples() -> None:
    floor: dict[str, Any] = {"name": "produce 1 KB", "unit": "s per million"}
    floor |= {"loop": [1.0, 2.0, 1.5], "apache": [6.0], "kavka": [3.0]}
    page = SCRIPT["page"]({"load": {**_RUN, "lines": [], "floor": [floor]}})
    assert "| produce 1 KB | s per million | 1.5 (1-2) | 6 | 3 | 4.00 | 2.00 |" in page


_RUN = {"date": "2026-11-27", "rounds": 3, "machine": "x86-64"}
