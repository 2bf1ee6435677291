"""Testing of pipelines: a project's graph on `local[1]` between a real broker in this process and its own tables.

pytest_plugins = ["kavka.pipelines.testing.fixture"]    # conftest.py; `kavka pipelines test` needs no line

def test_failed_requests_are_alerted(pipeline):
    pipeline.feed("shop-events", [{"user": "bob", "page": "/b", "status": 500}])
    pipeline.run()
    assert [record.json for record in pipeline.topic("shop-alerts")] == [{"page": "/b", "status": 500}]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.pipelines.testing.records import Record

if TYPE_CHECKING:
    from kavka.pipelines.testing.pipeline import Pipeline, Updated, UpdateFailed

__all__ = ["Pipeline", "Record", "UpdateFailed", "Updated"]


def __getattr__(name: str) -> object:
    """Load what needs brokers and Spark when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kavka.pipelines.testing import pipeline

    return getattr(pipeline, name)
