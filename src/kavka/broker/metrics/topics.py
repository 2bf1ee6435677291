"""Traffic of topics: Kafka's BrokerTopicMetrics, one sample for each topic and one, without label, for all."""

from __future__ import annotations

from collections.abc import Iterator

from kavka.broker.metrics.sources import MetricsSources
from kavka.broker.partitions.traffic import Traffic
from kavka.metrics.families import Family, Sample, counter, labelled

_PREFIX = "kafka_server_brokertopicmetrics_"
_BY_TOPIC = {
    "messages_in": ("messagesin", "Records that were appended as leader."),
    "bytes_in": ("bytesin", "Bytes of batches that were appended as leader."),
    "bytes_out": ("bytesout", "Bytes of batches that consumers were given."),
    "bytes_rejected": ("bytesrejected", "Bytes of batches that were refused for their size."),
    "produce_requests": ("totalproducerequests", "Partitions of Produce requests."),
    "failed_produce_requests": (
        "failedproducerequests",
        "Partitions of Produce requests that were refused, but for causes that clients get over.",
    ),
    "fetch_requests": ("totalfetchrequests", "Partitions of responses to Fetch."),
    "failed_fetch_requests": ("failedfetchrequests", "Reads that met damage."),
}
_OF_ALL = {
    "replication_bytes_in": ("replicationbytesin", "Bytes that were fetched from leaders."),
    "replication_bytes_out": ("replicationbytesout", "Bytes that followers were given."),
    "reassignment_bytes_in": (
        "reassignmentbytesin",
        "Bytes that were fetched from leaders for replicas that a reassignment adds.",
    ),
    "reassignment_bytes_out": (
        "reassignmentbytesout",
        "Bytes sent to followers that a reassignment adds.",
    ),
}


def families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the families."""
    traffic = sources.replica_manager.traffic
    total = traffic.total()
    for attribute, (name, help) in _BY_TOPIC.items():
        samples = _samples(traffic, attribute, getattr(total, attribute))
        yield counter(f"{_PREFIX}{name}_total", help, samples)
    for attribute, (name, help) in _OF_ALL.items():
        yield counter(f"{_PREFIX}{name}_total", help, getattr(total, attribute))
    for name in ("producemessageconversions", "fetchmessageconversions"):
        help = "Records that were converted to another format: none, old formats are refused."
        yield counter(f"{_PREFIX}{name}_total", help, 0)


def _samples(traffic: Traffic, attribute: str, total: int) -> Iterator[Sample]:
    yield "", total
    for topic, counts in list(traffic.topics.items()):
        yield labelled(topic=topic), getattr(counts, attribute)
