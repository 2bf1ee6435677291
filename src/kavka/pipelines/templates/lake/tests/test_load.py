"""Tests of {{name}}: `kavka pipelines test`, or pytest."""

from datetime import UTC, datetime

from kavka.pipelines.testing import Pipeline

READ = {"time": "2015-05-17T10:05:03.000Z", "collected": "2026-01-01T00:00:00.000Z", "host": "web1"}


def test_each_line_is_a_row_once_also_one_that_is_no_request(pipeline: Pipeline) -> None:
    request = {"client": "10.0.0.7", "method": "GET", "path": "/", "status": 200, "bytes": 512}
    pipeline.feed("{{name}}-lines", [READ | {"message": "…", "fields": request}])
    pipeline.run()
    pipeline.feed(
        "{{name}}-lines", [READ | {"message": "garbage", "error": "no access log"}, "text"]
    )
    pipeline.run()
    rows = sorted(pipeline.lake_table("lake.requests"), key=lambda row: row["offset"])
    assert [row["offset"] for row in rows] == [0, 1, 2]
    assert [row["status"] for row in rows] == [200, None, None]
    assert [row["message"] for row in rows] == [None, "garbage", "text"]
    assert [row["error"] for row in rows] == [None, "no access log", "no record of kavka collect"]
    assert rows[0]["event_time"].astimezone(UTC) == datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)
