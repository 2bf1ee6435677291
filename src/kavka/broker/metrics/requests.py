"""Requests: Kafka's RequestMetrics, RequestChannel, SocketServer, purgatories and fetch sessions."""

from __future__ import annotations

from collections.abc import Iterator

from kavka.broker.metrics.sources import MetricsSources
from kavka.broker.requests.counters import RequestTraffic
from kavka.broker.requests.refusals import UNKNOWN_API, Refusals
from kavka.errors import ErrorCode
from kavka.metrics.families import (
    Family,
    Sample,
    counter,
    gauge,
    labelled,
    summarized,
    summary,
    with_zeros,
)
from kavka.wire.apis import ApiKey

_REQUESTS = "kafka_network_requestmetrics_"
_PURGATORY = "kafka_server_delayedoperationpurgatory_"
_SESSIONS = "kafka_server_fetchsessioncache_"


def request_name(key: ApiKey) -> str:
    """Return what Kafka calls an API: `Produce`, `OffsetForLeaderEpoch`."""
    return "".join(word.capitalize() for word in key.name.split("_"))


def families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the families."""
    traffic = {request_name(k): t for k, t in sorted(sources.dispatcher.traffic().items())}
    yield from _of_requests(traffic)
    yield from _of_refusals(sources.dispatcher.refusals)
    yield from _of_memory(sources)
    yield from _of_waiting(sources)


def _of_requests(traffic: dict[str, RequestTraffic]) -> Iterator[Family]:
    help = "Requests that came, by API and version."
    yield counter(f"{_REQUESTS}requests_total", help, _requests(traffic))
    help = "Errors in responses, by API: one response may hold several, of partitions."
    yield counter(f"{_REQUESTS}errors_total", help, _errors(traffic))
    help = "From a request's arrival to its response, in ms."
    yield summary(f"{_REQUESTS}totaltimems", help, _times(traffic, "total"))
    help = "What of that the broker worked without a pause, in ms."
    yield summary(f"{_REQUESTS}localtimems", help, _times(traffic, "local"))
    help = "What of that was waited, for replicas, records, the disk or the group, in ms."
    yield summary(f"{_REQUESTS}remotetimems", help, _times(traffic, "remote"))
    help = "For how long quotas throttled the client behind a response, in ms; mostly 0."
    yield summary(f"{_REQUESTS}throttletimems", help, _throttle_times(traffic))


def _of_refusals(refusals: Refusals) -> Iterator[Family]:
    help = "Requests that were refused, with their connection closed, by API and reason."
    refused: list[Sample] = [
        (labelled(request=request_name(key) if key else UNKNOWN_API, reason=reason), count)
        for (key, reason), count in sorted(refusals.refused.items(), key=_by_name)
    ]
    yield counter("kavka_network_requests_refused_total", help, _with_sum(refused))
    help = "Requests that were given up because of a disk, the registry or a fault of the broker."
    failed: list[Sample] = [
        (labelled(request=request_name(key), reason=reason), count)
        for (key, reason), count in sorted(refusals.failed.items(), key=_by_name)
    ]
    yield counter("kavka_network_requests_failed_total", help, _with_sum(failed))
    help = "Connections that were refused, by the setting that limits them."
    connections: list[Sample] = [
        (labelled(setting=name), count) for name, count in sorted(refusals.connections.items())
    ]
    yield counter("kavka_network_connections_refused_total", help, _with_sum(connections))


def _with_sum(samples: list[Sample]) -> list[Sample]:
    """Return samples behind their sum without labels: a rate sees the first event only where there was a 0 before."""
    return [("", sum(count for _, count in samples)), *samples]


def _by_name(counted: tuple[tuple[ApiKey | None, str], int]) -> tuple[int, str]:
    (key, reason), _ = counted
    return -1 if key is None else int(key), reason


def _requests(traffic: dict[str, RequestTraffic]) -> Iterator[Sample]:
    for name, each in traffic.items():
        for version, count in enumerate(each.versions):
            if count:
                yield labelled(request=name, version=version), count


def _errors(traffic: dict[str, RequestTraffic]) -> Iterator[Sample]:
    for name, each in traffic.items():
        for code, count in sorted(each.errors.items()):
            yield labelled(request=name, error=ErrorCode.of(code).name), count


def _times(traffic: dict[str, RequestTraffic], part: str) -> Iterator[Sample]:
    for name, each in traffic.items():
        late = getattr(each, part)
        timings = [] if late is None else [late]
        if part == "remote":
            yield from summarized(timings, each.immediate, request=name)
        else:
            yield from summarized([each.immediate, *timings], request=name)


def _throttle_times(traffic: dict[str, RequestTraffic]) -> Iterator[Sample]:
    for name, each in traffic.items():
        throttled = [] if each.throttled is None else [each.throttled]
        answered = [each.immediate] if each.total is None else [each.immediate, each.total]
        recent = sum(sum(timings.counts()) for timings in answered)
        zeros = max(0, recent - sum(sum(timings.counts()) for timings in throttled))
        count = sum(timings.count for timings in answered)
        yield from with_zeros(throttled, zeros, count, request=name)


def _of_memory(sources: MetricsSources) -> Iterator[Family]:
    connections = list(sources.dispatcher.connections)
    waiting = sum(connection.waiting_frames for connection in connections)
    name = "kafka_network_requestchannel_requestqueuesize"
    yield gauge(name, "Requests that came and are not looked at yet.", waiting)
    unanswered = sum(connection.requests_in_flight for connection in connections)
    name = "kavka_network_requests_in_work"
    yield gauge(name, "Requests without a response, those that wait included.", unanswered)
    budget = sources.request_budget
    name = "kafka_network_socketserver_memorypoolused"
    yield gauge(name, "Bytes of requests that came and are not answered.", budget.held_bytes)
    name = "kafka_network_socketserver_memorypoolavailable"
    left = max(0, budget.limits.limit_bytes - budget.held_bytes)
    yield gauge(name, "Bytes of requests that may come before others are not read.", left)
    name = "kavka_network_connections_held_back"
    yield gauge(name, "Connections that are not read for want of room.", budget.waiting)
    name = "kavka_network_connections_closed_stalled_total"
    help = "Connections closed because a request made no progress while others needed its memory."
    yield counter(name, help, budget.closed_stalled)


def _of_waiting(sources: MetricsSources) -> Iterator[Family]:
    waiting = [
        (labelled(delayedOperation=name), len(purgatory))
        for name, purgatory in (
            ("Produce", sources.produce_purgatory),
            ("Fetch", sources.fetch_purgatory),
        )
    ]
    help = "Requests that wait: for replicas, or for records."
    yield gauge(f"{_PURGATORY}purgatorysize", help, waiting)
    yield gauge(f"{_PURGATORY}numdelayedoperations", help, waiting)
    sessions = sources.fetch_sessions
    name = f"{_SESSIONS}numincrementalfetchsessions"
    yield gauge(name, "Fetch sessions of consumers.", len(sessions))
    name = f"{_SESSIONS}numincrementalfetchpartitionscached"
    yield gauge(name, "Partitions of these sessions.", sessions.partition_count)
    name = f"{_SESSIONS}incrementalfetchsessionevictions_total"
    help = "Sessions that had to make room for others."
    yield counter(name, help, sessions.evictions)
