"""Broker settings of the cluster: its registry, its controller, and the way out of it."""

from __future__ import annotations

from kavka.settings.declaration import Scope, Setting, ValueType

_T = ValueType

CLUSTER_SETTINGS: list[Setting] = [
    Setting(
        "zookeeper.connect",
        _T.STRING,
        None,
        "The ensemble that keeps the registry: host:port,host:port/chroot. Without it the broker is alone.",
    ),
    Setting(
        "zookeeper.session.timeout.ms",
        _T.INT,
        18_000,
        "How long ZooKeeper believes in a silent broker.",
        minimum=1,
    ),
    Setting(
        "zookeeper.connection.timeout.ms",
        _T.INT,
        None,
        "How long a start waits for ZooKeeper; the session time-out when it is not set.",
        minimum=1,
    ),
    Setting(
        "controller.socket.timeout.ms",
        _T.INT,
        30_000,
        "How long the controller waits for a broker's answer to an order.",
        minimum=1,
    ),
    Setting(
        "auto.leader.rebalance.enable",
        _T.BOOLEAN,
        True,
        "Whether the controller gives leadership back to the preferred replicas from time to time.",
    ),
    Setting(
        "leader.imbalance.check.interval.seconds",
        _T.LONG,
        300,
        "How often the controller looks for leaders that are not the preferred ones.",
        minimum=1,
    ),
    Setting(
        "leader.imbalance.per.broker.percentage",
        _T.INT,
        10,
        "The part of a broker's preferred partitions that others may lead before it is given them back.",
        minimum=0,
    ),
    Setting(
        "unclean.leader.election.enable",
        _T.BOOLEAN,
        False,
        "Whether a replica outside the in-sync set may lead as a last resort; acknowledged records are lost then.",
        scope=Scope.CLUSTER_WIDE,
    ),
    Setting(
        "controlled.shutdown.enable",
        _T.BOOLEAN,
        True,
        "Whether a broker that stops hands its leaderships over first.",
    ),
    Setting(
        "controlled.shutdown.max.retries",
        _T.INT,
        3,
        "How often a stopping broker asks the controller to take its leaderships.",
        minimum=0,
    ),
    Setting(
        "controlled.shutdown.retry.backoff.ms",
        _T.LONG,
        5_000,
        "The pause between two of these tries.",
        minimum=0,
    ),
]
