"""Quotas: the rates that are measured of clients, and for how long they were throttled.

As in Apache Kafka a rate is of those that share a limit: labels say the user, the client id, or both; the other one is
empty. Throttle times are means of the last minute; only requests that were throttled count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kavka.broker.metrics.sources import MetricsSources
from kavka.broker.quotas.client_quotas import ClientQuotas
from kavka.broker.quotas.request_time import Metered
from kavka.core.quota.entities import QuotaKey
from kavka.core.quota.rate import LimitedRate
from kavka.core.quota.token_bucket import TokenBucket
from kavka.metrics.families import Family, Sample, gauge, labelled

_PRODUCE = "kafka_server_produce_"
_FETCH = "kafka_server_fetch_"
_REQUEST = "kafka_server_request_"
_MUTATION = "kafka_server_controllermutation_"
_SOCKETS = "kafka_server_socket_server_metrics_"

_Counted = list[tuple[str, Metered[LimitedRate]]]


def families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the families; none where there was no quota since the start."""
    now_ms = sources.context.clock.tick_ms()
    if sources.quotas.counted is not None:
        yield from _of_clients(sources.quotas.counted, now_ms)
    yield from _of_connections(sources, now_ms)


def _of_clients(quotas: ClientQuotas, now_ms: int) -> Iterator[Family]:
    produced = _labelled(quotas.produce.counted(now_ms))
    help = "Bytes a second of producers with a quota."
    yield gauge(f"{_PRODUCE}byte_rate", help, _rates(produced, now_ms))
    help = "Mean throttle time of producers over their quotas, in ms."
    yield gauge(f"{_PRODUCE}throttle_time", help, _throttled(produced, now_ms))
    fetched = _labelled(quotas.fetch.counted(now_ms))
    help = "Bytes a second of consumers with a quota."
    yield gauge(f"{_FETCH}byte_rate", help, _rates(fetched, now_ms))
    help = "Mean throttle time of consumers over their quotas, in ms."
    yield gauge(f"{_FETCH}throttle_time", help, _throttled(fetched, now_ms))
    requests = _labelled(quotas.request.counted(now_ms))
    help = "Share of the event loop's time that clients with a quota of it take, in percent."
    yield gauge(f"{_REQUEST}request_time", help, _rates(requests, now_ms))
    help = "Mean throttle time of clients over their quotas of request time, in ms."
    yield gauge(f"{_REQUEST}throttle_time", help, _throttled(requests, now_ms))
    yield from _of_mutations(quotas, now_ms)


def _of_mutations(quotas: ClientQuotas, now_ms: int) -> Iterator[Family]:
    counted: list[tuple[str, QuotaKey, Metered[TokenBucket]]] = [
        (_labels(key), key, metered) for key, metered in quotas.mutations.counted(now_ms)
    ]
    help = "Partitions a second that clients with a quota create and delete."
    rates = [(labels, metered.meter.rate.measure(now_ms)) for labels, _, metered in counted]
    yield gauge(f"{_MUTATION}mutation_rate", help, rates)
    help = "Partitions that such a client may create or delete at once."
    limited = [
        (labels, metered.meter.tokens(limit, now_ms))
        for labels, key, metered in counted
        if (limit := quotas.mutations.limit_of(key)) is not None
    ]
    yield gauge(f"{_MUTATION}tokens", help, limited)
    help = "Mean throttle time of clients over this quota, in ms."
    times = [(labels, metered.throttle_ms.measure(now_ms)) for labels, _, metered in counted]
    yield gauge(f"{_MUTATION}throttle_time", help, times)


def _of_connections(sources: MetricsSources, now_ms: int) -> Iterator[Family]:
    rates = sources.connection_quotas.rates
    if rates is None:
        return
    accepted = [
        (labelled(listener=name), each.rate.rate.measure(now_ms))
        for name, each in rates.of_listeners.items()
    ]
    help = "Connections a second that were accepted, since their rate is limited."
    yield gauge(f"{_SOCKETS}connection_accept_rate", help, accepted)
    throttled = [
        (labelled(listener=name), each.throttle_ms.measure(now_ms))
        for name, each in rates.of_listeners.items()
    ]
    help = "Mean time for which a listener accepted no connection because of its rate, in ms."
    yield gauge(f"{_SOCKETS}connection_accept_throttle_time", help, throttled)
    held = [
        (labelled(listener=name), each.measure(now_ms))
        for name, each in rates.ip_throttle_ms.items()
    ]
    help = "Mean throttle time of connections above the rates of their addresses, in ms."
    yield gauge(f"{_SOCKETS}ip_connection_accept_throttle_time", help, held)


def _labelled(counted: Iterable[tuple[QuotaKey, Metered[LimitedRate]]]) -> _Counted:
    return [(_labels(key), metered) for key, metered in counted]


def _labels(key: QuotaKey) -> str:
    return labelled(user=key.user or "", client_id=key.client_id or "")


def _rates(counted: _Counted, now_ms: int) -> list[Sample]:
    return [(labels, metered.meter.rate.measure(now_ms)) for labels, metered in counted]


def _throttled(counted: _Counted, now_ms: int) -> list[Sample]:
    return [(labels, metered.throttle_ms.measure(now_ms)) for labels, metered in counted]
