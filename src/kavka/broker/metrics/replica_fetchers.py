"""Followers: Kafka's ReplicaFetcherManager, FetcherLagMetrics and FetcherStats."""

from __future__ import annotations

from collections.abc import Iterator

from kavka.broker.metrics.sources import MetricsSources
from kavka.broker.replication.replica_fetcher import ReplicaFetcher
from kavka.core.follower import Phase
from kavka.ids import BrokerId
from kavka.metrics.families import Family, Sample, counter, gauge, labelled
from kavka.metrics.rates import Rates

_MANAGER = "kafka_server_replicafetchermanager_"
_REPLICA = labelled(clientId="Replica")
_REQUESTS = "fetcher_requests"
_MINUTE = 6  # turns


def families(sources: MetricsSources, rates: Rates | None = None) -> Iterator[Family]:
    """Yield the families; without another broker in the cluster there is nothing to follow, and all are 0."""
    fetchers = _fetchers(sources)
    lags = list(_lags(fetchers))
    help = "Records that a follower here lacks of what its leader has committed."
    yield gauge("kafka_server_fetcherlagmetrics_consumerlag", help, lags)
    help = "The largest of these lags."
    largest = max((lag for _, lag in lags), default=0)
    yield gauge(f"{_MANAGER}maxlag", help, [(_REPLICA, largest)])
    failed = sum(
        followed.machine.phase is Phase.FAILED
        for _leader, _number, fetcher in fetchers
        for followed in fetcher.followed
    )
    help = "Partitions that are no longer followed because of a fault or a failed disk."
    yield gauge(f"{_MANAGER}failedpartitionscount", help, [(_REPLICA, failed)])
    dead = sum(fetcher.has_died for _leader, _number, fetcher in fetchers)
    help = "Replica fetchers with a task that has ended."
    yield gauge(f"{_MANAGER}deadthreadcount", help, [(_REPLICA, dead)])
    if rates is not None:
        now_ms = sources.context.clock.tick_ms()
        slowest = min(
            (
                rates.per_second(_REQUESTS, labels, total, now_ms, _MINUTE)
                for (_name, labels), total in totals(sources).items()
            ),
            default=0,
        )
        help = "Requests in a second of the fetcher that sent the fewest in the last minute."
        yield gauge(f"{_MANAGER}minfetchrate", help, [(_REPLICA, slowest)])
    shown = [(_labels(leader, number), fetcher) for leader, number, fetcher in fetchers]
    requests = [(labels, fetcher.requests) for labels, fetcher in shown]
    yield counter("kafka_server_fetcherstats_requests_total", "Fetches from leaders.", requests)
    sizes = [(labels, fetcher.bytes_in) for labels, fetcher in shown]
    help = "Bytes of records that leaders gave."
    yield counter("kafka_server_fetcherstats_bytes_total", help, sizes)


def totals(sources: MetricsSources) -> dict[tuple[str, str], float]:
    """Return the totals that have rates, by name and labels."""
    return {
        (_REQUESTS, _labels(leader, number)): fetcher.requests
        for leader, number, fetcher in _fetchers(sources)
    }


def _fetchers(sources: MetricsSources) -> list[tuple[BrokerId, int, ReplicaFetcher]]:
    manager = sources.replication_manager.made
    return [] if manager is None else manager.fetchers.items()


def _labels(leader: BrokerId, number: int) -> str:
    return labelled(clientId=_client_id(leader, number), leader=leader)


def _client_id(leader: BrokerId, number: int) -> str:
    return f"ReplicaFetcherThread-{number}-{leader}"


def _lags(fetchers: list[tuple[BrokerId, int, ReplicaFetcher]]) -> Iterator[Sample]:
    for leader, number, fetcher in fetchers:
        for followed in fetcher.followed:
            replica = followed.replica
            lag = max(0, replica.leader_high_watermark - replica.log.log_end_offset)
            topic_partition = replica.topic_partition
            yield (
                labelled(
                    clientId=_client_id(leader, number),
                    topic=topic_partition.topic,
                    partition=topic_partition.partition,
                ),
                lag,
            )
