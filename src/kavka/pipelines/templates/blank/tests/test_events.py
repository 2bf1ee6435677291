"""Tests of {{name}}: `kavka pipelines test`, or pytest."""

from kavka.pipelines.testing import Pipeline


def test_failed_requests_are_counted_and_alerted_once(pipeline: Pipeline) -> None:
    events = [
        {"user": "ann", "page": "/", "status": 200},
        {"user": "bob", "page": "/cart", "status": 500},
    ]
    pipeline.feed("{{name}}-events", events)
    pipeline.run()
    assert pipeline.table("requests_by_page") == [
        {"page": "/", "requests": 1, "failed": 0},
        {"page": "/cart", "requests": 1, "failed": 1},
    ]
    [alert] = pipeline.topic("{{name}}-alerts")
    assert (alert.key_text, alert.json) == ("bob", {"page": "/cart", "status": 500})
