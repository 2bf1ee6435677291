"""Tests of {{name}}: `kavka pipelines test`, or pytest."""

from kavka.pipelines.testing import Pipeline


def sample(minute: float, name: str, value: float, **labels: str) -> dict[str, object]:
    """Return a sample of a broker's page, as `kavka collect metrics` writes it."""
    seconds = round(minute * 60)
    time = f"2020-01-01T10:{seconds // 60:02}:{seconds % 60:02}.000Z"
    common = {"time": time, "collected": time, "kind": "metric", "host": "a", "source": "http://b1"}
    return {**common, "name": name, "value": value, "labels": labels}


def page(minute: float, offline: float) -> list[dict[str, object]]:
    """Return the samples of one time."""
    metric = "kafka_controller_kafkacontroller_offlinepartitionscount"
    return [sample(minute, "up", 1), sample(minute, metric, offline)]


def test_an_incident_is_two_records_across_runs(pipeline: Pipeline) -> None:
    pipeline.feed("{{name}}-metrics", [*page(0, 0), *page(0.5, 3), *page(1, 3), *page(1.5, 3)])
    pipeline.run()
    [firing] = pipeline.topic("{{name}}-alerts")
    assert firing.key_text == "OfflinePartitions a:http://b1 {}"
    assert firing.json["event"] == "firing"
    assert (firing.json["since"][11:19], firing.json["time"][11:19]) == ("10:00:30", "10:01:30")

    pipeline.feed("{{name}}-metrics", [*page(2, 3), *page(3.5, 0), *page(4, 0)])
    pipeline.run()
    firing, resolved = pipeline.topic("{{name}}-alerts")
    assert resolved.json["event"] == "resolved"
    assert resolved.json["incident"] == firing.json["incident"]

    metric = "kafka_controller_kafkacontroller_offlinepartitionscount"
    rows = [row for row in pipeline.table("metric_windows") if row["name"] == metric]
    assert [(row["count"], row["max"], row["p95"]) for row in rows] == [(2, 3, 3), (2, 3, 3), (1, 3, 3)]  # fmt: skip
