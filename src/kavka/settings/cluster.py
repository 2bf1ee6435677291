"""Broker settings of the cluster: its registry, its controller, and the way out of it."""

from __future__ import annotations

from kavka.settings.declaration import Scope, Setting, ValueType

_T = ValueType

CLUSTER_SETTINGS: list[Setting] = [
    Setting(
        "zookeeper.connect",
        _T.STRING,
        None,
        "Addresses of the ZooKeeper ensemble, or of `kavka zookeeper-server-start`: host:port,host:port/chroot. "
        "Unset: the broker runs alone, with an embedded registry.",
    ),
    Setting(
        "zookeeper.set.acl",
        _T.BOOLEAN,
        False,
        "True protects znodes: only the brokers' identity (a JAAS file, or a certificate with zookeeper.ssl.*) may "
        "change those that they create, and read those with secrets.",
    ),
    Setting(
        "kavka.zookeeper.jaas.file",
        _T.STRING,
        None,
        "JAAS file with the login to ZooKeeper (SASL DIGEST-MD5), read again for each connection. Unset: the file "
        "of -Djava.security.auth.login.config in KAFKA_OPTS.",
    ),
    Setting(
        "kavka.zookeeper.jaas.section",
        _T.STRING,
        "Client",
        "Section of the JAAS file with the login to ZooKeeper; in KAFKA_OPTS -Dzookeeper.sasl.clientconfig=NAME.",
    ),
    Setting(
        "zookeeper.session.timeout.ms",
        _T.INT,
        18_000,
        "Session timeout at ZooKeeper in milliseconds. A broker that is not heard of for so long is taken for dead, "
        "and its leaderships move.",
        minimum=1,
    ),
    Setting(
        "zookeeper.connection.timeout.ms",
        _T.INT,
        None,
        "Maximum time in milliseconds that the start waits for a connection to ZooKeeper. Unset: "
        "zookeeper.session.timeout.ms.",
        minimum=1,
    ),
    Setting(
        "controller.socket.timeout.ms",
        _T.INT,
        30_000,
        "Timeout in milliseconds of requests of the controller to brokers, which are repeated, and of brokers to it.",
        minimum=1,
    ),
    Setting(
        "auto.leader.rebalance.enable",
        _T.BOOLEAN,
        True,
        "True has the controller give leadership back to preferred replicas from time to time.",
    ),
    Setting(
        "leader.imbalance.check.interval.seconds",
        _T.LONG,
        300,
        "Interval in seconds at which the controller checks for leader imbalance, with auto.leader.rebalance.enable.",
        minimum=1,
    ),
    Setting(
        "leader.imbalance.per.broker.percentage",
        _T.INT,
        10,
        "Percentage of the partitions with the broker as preferred leader that other brokers may lead; above it, "
        "the broker gets these leaderships back.",
        minimum=0,
    ),
    Setting(
        "unclean.leader.election.enable",
        _T.BOOLEAN,
        False,
        "True allows a replica that is not in sync to become leader when no other is alive: the partition is "
        "available again, and acknowledged records may be lost. Default of the same setting of topics.",
        scope=Scope.CLUSTER_WIDE,
    ),
    Setting(
        "controlled.shutdown.enable",
        _T.BOOLEAN,
        True,
        "True moves the broker's leaderships to other brokers before it stops; false leaves these partitions "
        "without a leader until the controller notices.",
    ),
    Setting(
        "controlled.shutdown.max.retries",
        _T.INT,
        3,
        "Maximum number of tries of a controlled shutdown; after them the broker stops with the leaderships it has.",
        minimum=0,
    ),
    Setting(
        "controlled.shutdown.retry.backoff.ms",
        _T.LONG,
        5_000,
        "Wait in milliseconds between two tries of a controlled shutdown.",
        minimum=0,
    ),
]
