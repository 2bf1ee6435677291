"""Tests of {{name}}: `kavka pipelines test`, or pytest."""

from typing import Any

from kavka.pipelines.testing import Pipeline

METRIC = "kafka_controller_kafkacontroller_offlinepartitionscount"


def record(second: int, **fields: Any) -> dict[str, Any]:
    """Return a record of a collector, so many seconds after ten."""
    time = f"2020-01-01T10:{second // 60:02}:{second % 60:02}.000Z"
    return {"time": time, "collected": time, "host": "a", **fields}


def page(second: int, offline: float) -> list[dict[str, Any]]:
    """Return the samples of a broker's page, as `kavka collect metrics` writes them."""
    common = {"kind": "metric", "source": "http://b1"}
    values = {"up": 1, METRIC: offline}
    return [record(second, name=name, value=value, **common) for name, value in values.items()]


def line(second: int, name: str, **fields: Any) -> dict[str, Any]:
    """Return an event of a log, as `kavka collect files` writes it."""
    return record(second, kind="log", source=f"/var/log/{name}.log", **fields)


def test_metrics_and_logs_become_windows_error_rates_and_one_incident(pipeline: Pipeline) -> None:
    values = {0: 0, 30: 3, 60: 3, 90: 3, 120: 3, 210: 0, 240: 0}
    pipeline.feed(
        "{{name}}-metrics", [one for at, value in values.items() for one in page(at, value)]
    )
    shop = {"message": "x", "labels": {"service": "shop"}}
    pipeline.feed(
        "{{name}}-logs",
        [
            line(1, "app", message="fine", fields={"level": "info"}),
            line(2, "app", message="no", fields={"level": "error"}),
            line(3, "web", fields={"status": 503, "request_time": 2.5}, **shop),
            line(4, "web", fields={"status": 200, "request_time": 0.5}, **shop),
            line(5, "raw", message="10:00 ERROR it failed"),
            line(300, "app", message="later"),
        ],
    )
    # What no collector writes harms nothing.
    wrong = page(60, 9)[1] | {"value": "NaN", "labels": {"x": None}}
    pipeline.feed("{{name}}-metrics", ["no JSON", wrong])
    updated = pipeline.run()
    assert updated.expectations("metric_windows")["a sample of a collector"].failed == 1

    # It began at 10:00:30, fired a minute later, and was said once, as was its end.
    firing, resolved = pipeline.topic("{{name}}-alerts")
    assert firing.key_text == resolved.key_text == "OfflinePartitions a:http://b1 {}"
    assert (firing.json["event"], firing.json["time"][11:19]) == ("firing", "10:01:30")
    assert (resolved.json["event"], resolved.json["time"][11:19]) == ("resolved", "10:03:30")
    assert firing.json["incident"] == resolved.json["incident"]
    assert firing.json["since"][11:19] == "10:00:30"

    rows = [row for row in pipeline.table("metric_windows") if row["name"] == METRIC]
    assert [(row["count"], row["max"], row["last"]) for row in rows] == [(2, 3, 3), (2, 3, 3), (1, 3, 3)]  # fmt: skip
    rates = pipeline.table(
        "error_rates", "service", "events", "errors", "failed_ratio", "p99_seconds"
    )
    assert [tuple(row.values()) for row in rates] == [
        ("app.log", 2, 1, None, None),
        ("raw.log", 1, 1, None, None),
        ("shop", 2, 1, 0.5, 2.5),
    ]
    services = pipeline.table("services", "service")
    assert [row["service"] for row in services] == ["app.log", "raw.log", "shop"]
