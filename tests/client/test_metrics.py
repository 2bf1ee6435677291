"""Metrics of the clients, and their reporters; Prometheus' and OpenTelemetry's libraries read them."""

from __future__ import annotations

import asyncio
from math import isnan, nan
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider, export
from prometheus_client import CollectorRegistry, generate_latest

from kavka.client import (
    Admin,
    CallbackReporter,
    Consumer,
    InvalidSetting,
    KafkaError,
    Metrics,
    OpenTelemetryReporter,
    Producer,
    PrometheusReporter,
    TopicPartition,
    blocking,
)
from kavka.client.metrics.sensors import Sensor, Sum, Window
from kavka.errors import ErrorCode
from kavka.wire.apis import ApiKey

AT = TopicPartition("t", 0)
READING = {"auto.offset.reset": "earliest", "group.id": "g"}


def values(metrics: Metrics, group: str, **tags: str) -> dict[str, float]:
    """Return the values of a group by name, those with further tags only if they are given."""
    return {
        name: value
        for (name, its_group, its_tags), value in metrics.items()
        if its_group == group and dict(its_tags[1:]) == tags
    }


def test_a_sensor_has_totals_and_a_sliding_window() -> None:
    sensor = Sensor(Window(2, 1000))
    assert isnan(Sum([sensor], 0).average())
    assert Sum([sensor], 0).rate() == 0
    sensor.add(10, 0)
    sensor.add(30, 500)
    assert (sensor.total, sensor.count) == (40, 2)
    at = Sum([sensor], 500)
    assert (at.average(), at.maximum()) == (20, 30)
    assert at.rate() == 40  # of a second at least: a burst is no rate
    sensor.add(2, 1500)
    assert Sum([sensor], 1999).rate() == pytest.approx(42 / 1.999)
    later = Sum([sensor], 2000)
    assert (later.average(), later.maximum()) == (2, 2)  # the first sample is over
    assert later.occurrence_rate() == 1
    assert Sum([sensor], 9000).rate() == 0
    assert sensor.total == 42
    other = Sensor(Window(2, 1000))
    other.add(4, 2000)
    both = Sum([sensor, other], 2000)
    assert (both.total, both.count, both.average(), both.maximum()) == (46, 4, 3, 4)
    assert both.rate() == 6


def test_a_producer_counts_records_batches_requests_and_failures(broker, settings):
    broker.faults[ApiKey.PRODUCE].extend(
        [None, ErrorCode.NOT_LEADER_OR_FOLLOWER, None, None, ErrorCode.INVALID_RECORD]
    )

    async def main() -> Metrics:
        async with Producer(settings | {"client.id": "me"}, network=broker) as producer:
            for _ in range(3):
                await producer.send_many("t", [(None, b"x" * 100)] * 10)
            with pytest.raises(KafkaError):
                await producer.send("t", b"refused")
            return producer.metrics()

    found = asyncio.run(main())
    assert {dict(tags)["client-id"] for _, _, tags in found} == {"me"}
    mine = values(found, "producer-metrics")
    assert (mine["record-send-total"], mine["record-error-total"]) == (30, 1)
    assert mine["record-retry-total"] == 10
    assert mine["records-per-request-avg"] == pytest.approx(41 / 5)
    assert 100 < mine["record-size-avg"] < 130
    assert mine["batch-size-max"] > 1000
    assert mine["compression-rate-avg"] > 0.5
    assert mine["record-send-rate"] == pytest.approx(1.0, rel=0.3)  # 30 in a window of 30 s or more
    assert (mine["buffer-total-bytes"], mine["buffer-available-bytes"]) == (33554432, 33554432)
    assert (mine["connection-count"], mine["requests-in-flight"]) == (1, 0)
    assert mine["request-total"] == mine["response-total"] > 5
    assert mine["outgoing-byte-total"] > 4000
    assert mine["request-latency-avg"] <= mine["request-latency-max"]
    topic = values(found, "producer-topic-metrics", topic="t")
    assert (topic["record-send-total"], topic["record-error-total"]) == (30, 1)
    assert topic["byte-total"] > 4000


def test_a_consumer_counts_records_lag_fetches_and_its_group(broker, settings):
    with blocking.Producer(settings, network=broker) as producer:
        producer.send_many("t", [(None, b"x" * 100)] * 10)
    with blocking.Consumer(settings | READING, network=broker) as consumer:
        consumer.subscribe(["t"])
        taken = 0
        while taken < 4:
            taken += sum(len(one) for one in consumer.poll(1000, max_records=4))
        consumer.commit()
        found = consumer.metrics()
        fetches = values(found, "consumer-fetch-manager-metrics")
        assert fetches["records-consumed-total"] == 4
        assert fetches["records-lag-max"] == 6
        assert fetches["records-lead-min"] == 4
        assert fetches["fetch-total"] >= 1
        assert fetches["fetch-size-max"] > 1000
        of_partition = values(found, "consumer-fetch-manager-metrics", topic="t", partition="0")
        assert of_partition == {"records-lag": 6, "records-lead": 4}
        group = values(found, "consumer-coordinator-metrics")
        assert (group["assigned-partitions"], group["rebalance-total"]) == (1, 1)
        assert (group["commit-total"], group["sync-total"]) == (1, 1)
        assert group["join-total"] == 2  # the first has its member id in the refusal (KIP-394)
        assert 0 <= group["commit-latency-avg"] <= group["commit-latency-max"]
        while taken < 10:
            taken += sum(len(one) for one in consumer.poll(1000))
        later = values(consumer.metrics(), "consumer-fetch-manager-metrics", topic="t")
        assert later["records-consumed-total"] == 10
        assert later["bytes-consumed-total"] > 1000
        polls = values(consumer.metrics(), "consumer-metrics")
        assert 0 <= polls["last-poll-seconds-ago"] < 60
        assert polls["time-between-poll-max"] >= 0


def test_prometheus_reads_all_clients_of_a_reporter(broker, settings):
    registry = CollectorRegistry()
    more = settings | {"metric.reporters": [PrometheusReporter(registry)], "client.id": "shop"}

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"client_id": "shop", **labels})

    with (
        blocking.Producer(more, network=broker) as producer,
        blocking.Producer(more, network=broker),
        blocking.Consumer(more | READING, network=broker) as consumer,
        blocking.Admin(more, network=broker),
    ):
        producer.send("t", b"v")
        consumer.assign([AT])
        next(consumer)
        assert value("kafka_producer_record_send_total") == 1
        second = registry.get_sample_value(
            "kafka_producer_record_send_total", {"client_id": "shop-2"}
        )
        assert second == 0
        assert value("kafka_producer_topic_record_send_total", topic="t") == 1
        assert value("kafka_consumer_fetch_manager_records_consumed_total") == 1
        in_topic = value("kafka_consumer_fetch_manager_topic_records_consumed_total", topic="t")
        assert in_topic == 1
        assert value("kafka_consumer_fetch_manager_records_lag", topic="t", partition="0") == 0
        assert value("kafka_admin_client_connection_count") == 1
        page = generate_latest(registry).decode()
        assert "# TYPE kafka_producer_record_send_total counter" in page
        assert "# TYPE kafka_producer_record_send_rate gauge" in page
    assert value("kafka_producer_record_send_total") is None


def test_open_telemetry_observes_all_clients_of_a_reporter(broker, settings):
    reader = export.InMemoryMetricReader()
    provider = MeterProvider([reader])
    reporter = OpenTelemetryReporter(provider.get_meter("test"))
    more = settings | {"metric.reporters": [reporter], "client.id": "shop"}
    with (
        blocking.Producer(more, network=broker) as producer,
        blocking.Consumer(more, network=broker),
    ):
        producer.send("t", b"v")
        data = reader.get_metrics_data()
        points = {
            (metric.name, tuple(sorted(point.attributes.items()))): (point.value, type(metric.data))
            for metric in data.resource_metrics[0].scope_metrics[0].metrics
            for point in metric.data.data_points
        }
        sent = points["kafka.producer.record_send_total", (("client_id", "shop"),)]
        assert sent == (1, export.Sum)
        in_topic = points[
            "kafka.producer.topic.record_send_total", (("client_id", "shop"), ("topic", "t"))
        ]
        assert in_topic[0] == 1
        count = points["kafka.consumer.connection_count", (("client_id", "shop"),)]
        assert count == (1, export.Gauge)
        assert not any(isnan(value) for value, _ in points.values())
    provider.shutdown()


def test_a_function_is_called_with_metrics_also_when_the_client_is_closed(broker, settings):
    seen: list[Metrics] = []

    async def main() -> None:
        enough = asyncio.Event()

        def take(metrics: Metrics) -> None:
            seen.append(metrics)
            enough.set()
            raise LookupError("its own mistake")  # is logged, and stops nothing

        more = settings | {"metric.reporters": [CallbackReporter(take, interval_s=0.01)]}
        async with Producer(more, network=broker) as producer:
            await asyncio.wait_for(enough.wait(), 30)
            await producer.send("t", b"v")

    asyncio.run(main())
    assert values(seen[-1], "producer-metrics")["record-send-total"] == 1


def test_clients_without_a_name_have_one_in_their_metrics(broker, settings):
    async def name_of(client: Any) -> str:
        return next(iter(client.metrics())).tags[0][1]

    async def main() -> list[str]:
        kinds: list[Any] = [Producer, Consumer, Admin, Producer]
        return [await name_of(kind(settings, network=broker)) for kind in kinds]

    first, consumer, admin, second = asyncio.run(main())
    assert first.startswith("producer-")
    assert consumer.startswith("consumer-")
    assert admin.startswith("adminclient-")
    assert first != second


@pytest.mark.parametrize("given", [["x"], [object()], "com.example.Reporter"])
def test_what_cannot_report_is_refused(settings, given):
    with pytest.raises(InvalidSetting, match="attach and detach"):
        Producer(settings | {"metric.reporters": given})


def test_javas_reporter_is_left_out(settings):
    Producer(settings | {"metric.reporters": "org.apache.kafka.common.metrics.JmxReporter"})


def test_nan_means_that_there_was_nothing(broker, settings):
    found = Consumer(settings, network=broker).metrics()
    assert str(values(found, "consumer-fetch-manager-metrics")["records-lag-max"]) == str(nan)


@pytest.mark.parametrize("given", [3, "x", [3], [CallbackReporter], PrometheusReporter])
def test_what_is_no_list_of_reporters_is_refused(settings, given) -> None:
    with pytest.raises(InvalidSetting, match=r"Give a list of objects with attach and detach"):
        Producer(settings | {"metric.reporters": given})


def test_a_reporter_without_a_function_or_an_interval_is_refused() -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match="the function is int, which cannot be called"):
        CallbackReporter(wrong)
    for interval_s in (0, -1, nan):
        with pytest.raises(ValueError, match="it must be more than 0"):
            CallbackReporter(print, interval_s)
