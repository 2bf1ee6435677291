"""Fault models of a cluster: faults that may happen together, and the guarantees that remain.

Replication promises: a record acknowledged to `acks=all` survives as long as one replica of those in sync keeps it. A
killed process keeps what it wrote, because the page cache is the kernel's; a host that loses power keeps what was
flushed. So any number of processes may die, also all at once, but power may be lost only

- with `log.flush.interval.messages=1`, by any number of hosts; or
- by one host at a time (`min.insync.replicas` is 2 in these runs), while every other replica is alive and in sync,
  and not again, nor anything else that shrinks an in-sync set, before that host's replicas are in sync again.
  More may lose acknowledged records in Apache Kafka as well (KIP-966, "last replica standing").

Where users' topics allow unclean elections, replicas die and fall behind but are never cut off: a leader that lives on
beside its successor would acknowledge records that are lost already, and no one could say which.
"""

from __future__ import annotations

from kavka.simulation.faults import Durability, Fault, FaultModel

_KILLS = (Fault.KILL, Fault.KILL, Fault.KILL_IN_WRITE, Fault.KILL_CONTROLLER, Fault.STOP)
_CLIENTS = (Fault.KILL_CLIENT, Fault.PAUSE_CLIENT)
_LINKS = (Fault.RESET, Fault.CUT, Fault.CUT_ONE_WAY, Fault.SLOW_LINK)
_BETWEEN = (Fault.CUT_BROKERS, Fault.CUT_BROKERS_ONE_WAY, Fault.ISOLATE, Fault.SPLIT)
_SESSIONS = (
    Fault.EXPIRE_SESSION,
    Fault.CUT_REGISTRY,
    Fault.SLOW_REGISTRY,
    Fault.DEPOSE_CONTROLLER,
    Fault.KILL_REGISTRY,
)
_MACHINE = (Fault.SLOW_DISK, Fault.COLD, Fault.JUMP_CLOCK)
_ALL = Durability.EVERYTHING_ACKNOWLEDGED

CALM = FaultModel("calm", "nothing fails", (), _ALL)
NETWORK = FaultModel(
    "network",
    "links between brokers, to clients and to the registry break, are cut and slow; sessions expire",
    _LINKS + _BETWEEN + _SESSIONS,
    _ALL,
)
CHURN = FaultModel(
    "churn",
    "controllers are killed and deposed, and brokers are killed and stopped, all the time",
    (*_KILLS, Fault.KILL_CONTROLLER, Fault.DEPOSE_CONTROLLER, Fault.EXPIRE_SESSION, Fault.PAUSE),
    _ALL,
)
PROCESSES = FaultModel(
    "processes",
    "brokers and clients die and stand still, links break, sessions expire, disks are slow; the page cache survives",
    (
        *_KILLS,
        Fault.PAUSE,
        Fault.PAUSE,
        Fault.KILL_ALL,
        *_CLIENTS,
        *_LINKS,
        *_BETWEEN,
        *_SESSIONS,
        *_MACHINE,
    ),
    _ALL,
)
POWER_WITH_FLUSH = FaultModel(
    "power, flushed",
    "any hosts lose power, but every batch is synced before it counts as replicated",
    (
        *_KILLS,
        Fault.LOSE_POWER,
        Fault.LOSE_POWER,
        Fault.LOSE_POWER,
        Fault.PAUSE,
        *_BETWEEN,
        *_MACHINE,
    ),
    _ALL,
    {"log.flush.interval.messages": "1"},
)
POWER = FaultModel(
    "power",
    "one host at a time loses power, with nothing synced by request, while all other replicas are in sync",
    (Fault.LOSE_POWER, *_CLIENTS, Fault.COLD, Fault.JUMP_CLOCK),
    _ALL,
)
DISKS = FaultModel(
    "disks",
    "disks fail and are full for a while; brokers give up and start again, others are killed",
    (*_KILLS, *_MACHINE, *_BETWEEN, Fault.FAIL_DISK, Fault.FAIL_DISK, Fault.FILL_DISK),
    _ALL,
)

UNCLEAN = FaultModel(
    "unclean",
    "brokers die and links between them are slow; topics of users allow unclean elections",
    (
        *_KILLS,
        Fault.KILL,
        Fault.KILL_ALL,
        Fault.SLOW_BROKERS,
        Fault.SLOW_BROKERS,
        Fault.SLOW_BROKERS,
        Fault.KILL_CLIENT,
        Fault.SLOW_DISK,
        Fault.COLD,
    ),
    _ALL,
    {"replica.lag.time.max.ms": "1000", "zookeeper.session.timeout.ms": "2000"},
)

MODELS = (CALM, NETWORK, NETWORK, CHURN, PROCESSES, PROCESSES, POWER_WITH_FLUSH, POWER, DISKS)
"""The models a seed chooses from; one that stands here twice is chosen twice as often. UNCLEAN replaces some."""
