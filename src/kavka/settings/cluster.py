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
        "zookeeper.set.acl",
        _T.BOOLEAN,
        False,
        "True lets only the identity of the brokers (a JAAS file, or a certificate with zookeeper.ssl.*) change the "
        "znodes that they make, and read those with secrets.",
    ),
    Setting(
        "kavka.zookeeper.jaas.file",
        _T.STRING,
        None,
        "A JAAS file with the login to ZooKeeper (SASL DIGEST-MD5), read again for each connection; by default that of "
        "KAFKA_OPTS, -Djava.security.auth.login.config=FILE.",
    ),
    Setting(
        "kavka.zookeeper.jaas.section",
        _T.STRING,
        "Client",
        "The section of that file; in KAFKA_OPTS -Dzookeeper.sasl.clientconfig=NAME.",
    ),
    Setting(
        "zookeeper.session.timeout.ms",
        _T.INT,
        18_000,
        "ZooKeeper session timeout.",
        minimum=1,
    ),
    Setting(
        "zookeeper.connection.timeout.ms",
        _T.INT,
        None,
        "Maximum time that the start waits for a connection to ZooKeeper; the session timeout when it is not set.",
        minimum=1,
    ),
    Setting(
        "controller.socket.timeout.ms",
        _T.INT,
        30_000,
        "Timeout of the controller's requests to brokers.",
        minimum=1,
    ),
    Setting(
        "auto.leader.rebalance.enable",
        _T.BOOLEAN,
        True,
        "True enables automatic rebalancing of leadership to the preferred replicas.",
    ),
    Setting(
        "leader.imbalance.check.interval.seconds",
        _T.LONG,
        300,
        "Interval of the controller's check for leader imbalance.",
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
        "True allows electing a replica that is not in sync as a last resort; acknowledged records may be lost.",
        scope=Scope.CLUSTER_WIDE,
    ),
    Setting(
        "controlled.shutdown.enable",
        _T.BOOLEAN,
        True,
        "True enables controlled shutdown: leaderships are moved before the broker stops.",
    ),
    Setting(
        "controlled.shutdown.max.retries",
        _T.INT,
        3,
        "Maximum number of controlled shutdown requests.",
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
