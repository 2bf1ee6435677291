"""A benchmark that ends early keeps the parts that it has measured."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """Import the module; its package has a short name, which other tests shall not find."""
    monkeypatch.syspath_prepend(str(BENCH))
    before = set(sys.modules)
    import apache.results as module

    monkeypatch.setattr(module, "RESULTS", tmp_path)
    yield module
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "apache":
            del sys.modules[name]


def line(name: str) -> Any:
    from apache.report import Line

    return Line(name, "records/s", {"apache": [1.0], "kavka": [2.0, 4.0]})


def read(parts: Any) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(parts.path.read_text(encoding="utf-8"))
    return content


def names(content: dict[str, Any]) -> list[str]:
    return [each["name"] for each in content["lines"]]


@pytest.mark.parametrize("reason", [KeyboardInterrupt, RuntimeError])
def test_a_run_that_ends_early_keeps_its_lines_and_names_the_parts_that_are_missing(
    results: ModuleType, capsys: pytest.CaptureFixture[str], reason: type[BaseException]
) -> None:
    parts = results.Parts(
        "load", 3, False, ["small", "large", "cold"], lambda lines: {"count": len(lines)}
    )

    def run() -> None:
        with parts:
            parts.add("small", [line("a"), line("b")])
            assert read(parts)["missing"] == ["large", "cold"]  # already: a kill -9 loses no part
            raise reason

    with pytest.raises(reason):
        run()
    content = read(parts)
    assert (names(content), content["count"]) == (["a", "b"], 2)
    assert (content["name"], content["rounds"], content["quick"]) == ("load", 3, False)
    assert content["lines"][0]["kavka"] == [2.0, 4.0]
    said = capsys.readouterr().out
    assert f"the run ended without: large; cold; the lines before are in {parts.path}" in said


def test_a_whole_run_misses_nothing(
    results: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with results.Parts("load", 3, False, ["small", "large"]) as parts:
        parts.add("small", [line("a")])
        parts.add("large", [line("b")])
    content = read(parts)
    assert (names(content), content["missing"]) == (["a", "b"], [])
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == [parts.path]


def test_a_run_without_a_part_has_no_file(
    results: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(OSError, match="no broker"), results.Parts("load", 3, False, ["small"]):
        raise OSError("no broker")
    assert "the run ended without: small; nothing is kept" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
