"""The demo's queries while they start: Spark's ten seconds for a Python process are not the user's fault."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kavka.demo.supervised_queries import SupervisedQueries

_SLOW = RuntimeError("Python worker failed to connect back.")


def _query(error: Exception | None = None, progress: Any = None) -> Any:
    return SimpleNamespace(exception=lambda: error, lastProgress=progress)


def test_a_query_whose_process_was_slow_to_start_starts_again() -> None:
    lives = [_query(_SLOW), _query(_SLOW), _query()]
    running = SupervisedQueries()
    running.start("counts", lambda: lives.pop(0))
    for _ in range(3):
        running.check()
    assert [(name, query.exception()) for name, query in running] == [("counts", None)]
    assert lives == []


def test_a_query_that_is_always_slow_fails_in_the_end() -> None:
    running = SupervisedQueries()
    running.start("counts", lambda: _query(_SLOW))
    for _ in range(10):
        running.check()
    with pytest.raises(RuntimeError, match="connect back"):
        running.check()


@pytest.mark.parametrize(
    "query",
    [_query(_SLOW, progress={}), _query(ValueError("no such column"))],
    ids=["after a batch, which may have written", "another failure"],
)
def test_other_failures_are_raised(query: Any) -> None:
    running = SupervisedQueries()
    running.start("counts", lambda: query)
    with pytest.raises((RuntimeError, ValueError)):
        running.check()
