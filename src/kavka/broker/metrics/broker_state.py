"""The broker's standing: its state, its session with the registry, how busy its loop is, its release."""

from __future__ import annotations

from collections.abc import Iterator

from kavka import __version__
from kavka.broker.metrics.sources import MetricsSources
from kavka.metrics.families import Family, counter, gauge, labelled, summarized, summary
from kavka.net.event_loop import LoopIterations
from kavka.registry.zookeeper import ZooKeeperRegistry

_LOOP = "kavka_event_loop_"
_LISTENER = "kafka_server_sessionexpirelistener_"


def families(sources: MetricsSources, idle: float) -> Iterator[Family]:
    """Yield the families; `idle` is the share of its time that the loop had nothing to do."""
    help = "1 while it starts, 3 when it serves, 6 when it is about to stop."
    yield gauge("kafka_server_kafkaserver_brokerstate", help, int(sources.state()))
    help = "The release of kavka, the broker and the cluster; always 1."
    labels = labelled(
        version=__version__,
        broker=sources.context.broker_id,
        cluster=sources.context.metadata.cluster_id,
    )
    yield gauge("kavka_build_info", help, [(labels, 1)])
    help = "Share of the last seconds in which the broker's thread had nothing to do."
    for name in (
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    ):
        yield gauge(name, help, idle)
    yield from _of_loop(sources.iterations)
    yield from _of_session(sources)


def _of_loop(iterations: LoopIterations) -> Iterator[Family]:
    help = "Iterations of the event loop of 1 ms and more, in ms: clients wait while one lasts."
    yield summary(f"{_LOOP}iterationtimems", help, summarized([iterations.timings]))
    help = "The longest iteration of the last minute or two, in ms."
    yield gauge(f"{_LOOP}longest_iteration_ms", help, iterations.longest_ms)
    help = "Iterations that took kavka.event.loop.stall.warn.ms or more."
    yield counter(f"{_LOOP}stalls_total", help, iterations.stalls)
    help = "The sum of these iterations, in ms."
    yield counter(f"{_LOOP}stalled_ms_total", help, iterations.stalled_ms)


def _of_session(sources: MetricsSources) -> Iterator[Family]:
    registry = sources.context.registry
    remote = registry if isinstance(registry, ZooKeeperRegistry) else None
    connects, disconnects, expires = (
        (1, 0, 0) if remote is None else (remote.connects, remote.disconnects, remote.expirations)
    )
    name = f"{_LISTENER}zookeepersyncconnects_total"
    yield counter(name, "Connections to the registry.", connects)
    name = f"{_LISTENER}zookeeperdisconnects_total"
    yield counter(name, "Connections to the registry that broke.", disconnects)
    name = f"{_LISTENER}zookeeperexpires_total"
    yield counter(name, "Sessions with the registry that ended.", expires)
    name = f"{_LISTENER}zookeeperauthfailures_total"
    refusals = 0 if remote is None else remote.login_refusals
    yield counter(name, "Logins and identities that the registry refused.", refusals)
    name = f"{_LISTENER}zookeeperreadonlyconnects_total"
    help = "Connections to a read-only member of the registry: none, they are not used."
    yield counter(name, help, 0)
    help = "From a request to the registry to its reply, in ms; an embedded one has no requests."
    latencies = [] if remote is None else [remote.latencies]
    name = "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms"
    yield summary(name, help, summarized(latencies))
    help = "1 while the registry answers."
    connected = remote is None or remote.is_connected
    yield gauge("kavka_registry_connected", help, int(connected))
    help = "1 while this broker is registered: else others take its leaderships."
    yield gauge("kavka_broker_registered", help, int(sources.is_registered()))
