"""Connections and authentications: Kafka's socket-server-metrics, by listener and network processor.

A broker has one thread for all of them, so `networkProcessor` is 0. Each total has a rate of the last half minute
beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kavka.broker.metrics.sources import MetricsSources
from kavka.broker.requests.connections import ConnectionCounts
from kavka.broker.security.authentications import Authentications
from kavka.metrics.families import Family, counter, gauge, labelled
from kavka.metrics.rates import Rates

_SOCKETS = "kafka_server_socket_server_metrics_"
_NONE = ConnectionCounts()
_UNKNOWN = ("unknown", "unknown")
_MAX_SOFTWARE = 100
"""Number of names and versions of clients' software that are shown: clients choose them."""


class _Total(NamedTuple):
    """A counter by listener."""

    name: str
    """Without `_total`."""
    help: str
    values: Mapping[str, int]


def families(sources: MetricsSources, rates: Rates | None = None) -> Iterator[Family]:
    """Yield the families; rates where what they are taken of is given."""
    present = dict.fromkeys(_names(sources), 0)
    for connection in sources.dispatcher.connections:
        if (
            connection.listener_name in present
        ):  # else its listener was removed, and so it is closing
            present[connection.listener_name] += 1
    shown = [(_labels(name), count) for name, count in present.items()]
    yield gauge(f"{_SOCKETS}connection_count", "Open connections.", shown)
    yield _of_software(sources)
    now_ms = sources.context.clock.tick_ms()
    for total in _totals(sources):
        samples = [(_labels(name), value) for name, value in total.values.items()]
        yield counter(f"{_SOCKETS}{total.name}_total", total.help, samples)
        if rates is not None:
            rated = [
                (labels, rates.per_second(total.name, labels, value, now_ms))
                for labels, value in samples
            ]
            help = f"{total.help} In a second, over the last half minute."
            yield gauge(f"{_SOCKETS}{total.name}_rate", help, rated)
    expired = _expired(sources)
    help = "Connections that were closed because their client did not authenticate again in time."
    samples = [(_labels(name), value) for name, value in expired.items()]
    # Kafka's name has no `_total`, which a counter of Prometheus must have.
    yield gauge(f"{_SOCKETS}expired_connections_killed_count", help, samples)
    name = "kafka_network_socketserver_expiredconnectionskilledcount"
    yield gauge(name, help, sum(expired.values()))
    yield from _of_handshakes(sources)


def _of_software(sources: MetricsSources) -> Family:
    """Return connections by their client's software; those that have not authenticated could name any."""
    counts = Counter[tuple[str, str, str]]()
    for connection in sources.dispatcher.connections:
        session = connection.attachment.session
        if session.is_authenticated:
            counts[(*(session.software or _UNKNOWN), connection.listener_name)] += 1
    shown = Counter[str]()
    for place, ((name, version, listener), count) in enumerate(counts.most_common()):
        if place >= _MAX_SOFTWARE:
            name = version = "other"
        labels = {"clientSoftwareName": name, "clientSoftwareVersion": version}
        shown[labelled(**labels, listener=listener, networkProcessor=0)] += count
    help = "Open connections by the client's software, as it says itself (KIP-511)."
    return gauge(f"{_SOCKETS}connections_software", help, shown.items())


def totals(sources: MetricsSources) -> dict[tuple[str, str], float]:
    """Return the totals that have rates, by name and labels."""
    return {
        (total.name, _labels(name)): value
        for total in _totals(sources)
        for name, value in total.values.items()
    }


def _names(sources: MetricsSources) -> list[str]:
    return sources.context.endpoints.names


def _labels(name: str) -> str:
    return labelled(listener=name, networkProcessor=0)


def _of_listener(sources: MetricsSources, name: str) -> ConnectionCounts:
    return sources.dispatcher.connection_counts.get(name, _NONE)


def _totals(sources: MetricsSources) -> Iterator[_Total]:
    names = _names(sources)
    opened = {name: _of_listener(sources, name).opened for name in names}
    yield _Total("connection_creation", "Connections that were accepted.", opened)
    closed = {name: _of_listener(sources, name).closed for name in names}
    yield _Total("connection_close", "Connections that are closed.", closed)
    sent = {name: _of_listener(sources, name).bytes_sent for name in names}
    received = {name: _of_listener(sources, name).bytes_received for name in names}
    for connection in sources.dispatcher.connections:
        if connection.listener_name not in sent:
            continue
        sent[connection.listener_name] += connection.bytes_sent
        received[connection.listener_name] += connection.bytes_received
    yield _Total("outgoing_byte", "Bytes that were sent to clients.", sent)
    yield _Total("incoming_byte", "Bytes that came from clients.", received)
    yield from _of_authentications(sources, opened)


def _of_authentications(sources: MetricsSources, opened: Mapping[str, int]) -> Iterator[_Total]:
    """Yield what Kafka counts of listeners with TLS or SASL; zeros for others."""
    security, names = sources.security, _names(sources)
    counts = security.authentications or Authentications()
    with_tls = {e.name for e in sources.context.endpoints.listeners if e.protocol == "SSL"}
    # As in Kafka a handshake that is done is an authentication, with or without a certificate of the client.
    succeeded = {n: opened[n] if n in with_tls else counts.succeeded[n] for n in names}
    help = "Clients that have authenticated, by SASL or a TLS handshake."
    yield _Total("successful_authentication", help, succeeded)
    failed = {name: counts.failed[name] + security.handshake_failures(name) for name in names}
    help = "Authentications that failed, by SASL or in the TLS handshake."
    yield _Total("failed_authentication", help, failed)
    repeated = {name: counts.repeated[name] for name in names}
    help = "Clients that have authenticated again on their connection."
    yield _Total("successful_reauthentication", help, repeated)
    not_repeated = {name: counts.repeats_failed[name] for name in names}
    help = "Clients whose repeated authentication failed."
    yield _Total("failed_reauthentication", help, not_repeated)


def _expired(sources: MetricsSources) -> dict[str, int]:
    return {name: _of_listener(sources, name).expired for name in _names(sources)}


def _of_handshakes(sources: MetricsSources) -> Iterator[Family]:
    failures = [
        (labelled(listener=endpoint.name), sources.security.handshake_failures(endpoint.name))
        for endpoint in sources.context.endpoints.listeners
        if endpoint.is_encrypted
    ]
    if failures:
        help = "TLS handshakes of clients that failed; in failed_authentication_total as well."
        yield counter("kavka_tls_handshake_failures_total", help, failures)
