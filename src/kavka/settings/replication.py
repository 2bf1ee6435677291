"""Settings of replication: fetching of followers, the in-sync set, throttles."""

from __future__ import annotations

from kavka.settings.declaration import LONG_MAX, Scope, Setting, ValueType

_T = ValueType

REPLICATION_SETTINGS: list[Setting] = [
    Setting(
        "inter.broker.listener.name",
        _T.STRING,
        None,
        "The listener through which brokers talk to each other; by default the one of "
        "security.inter.broker.protocol.",
    ),
    Setting(
        "security.inter.broker.protocol",
        _T.STRING,
        "PLAINTEXT",
        "The security protocol of the listener through which brokers talk to each other.",
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    Setting(
        "num.replica.fetchers",
        _T.INT,
        1,
        "Connections to each leader that is followed.",
        minimum=1,
        scope=Scope.CLUSTER_WIDE,
    ),
    Setting(
        "replica.fetch.max.bytes",
        _T.INT,
        1_048_576,
        "Bytes of one partition that a follower asks for at once.",
        minimum=0,
    ),
    Setting(
        "replica.fetch.response.max.bytes",
        _T.INT,
        10_485_760,
        "Bytes that a follower asks for at once.",
        minimum=0,
    ),
    Setting(
        "replica.fetch.wait.max.ms",
        _T.INT,
        500,
        "Maximum wait time of a follower's fetch.",
        minimum=0,
    ),
    Setting(
        "replica.fetch.min.bytes",
        _T.INT,
        1,
        "Bytes that a follower waits for.",
        minimum=0,
    ),
    Setting(
        "replica.fetch.backoff.ms",
        _T.INT,
        1_000,
        "Maximum back-off of a follower after errors; it starts with 10 ms and doubles.",
        minimum=0,
    ),
    Setting(
        "replica.lag.time.max.ms",
        _T.LONG,
        30_000,
        "Maximum time for which a replica may lag before it is removed from the in-sync set.",
        minimum=1,
    ),
    Setting(
        "replica.socket.timeout.ms",
        _T.INT,
        30_000,
        "Timeout of a follower's requests to the leader.",
        minimum=1,
    ),
    Setting(
        "replica.selector.class",
        _T.STRING,
        None,
        "Class that selects the replica that a consumer reads from; "
        "org.apache.kafka.common.replica.RackAwareReplicaSelector takes one in its rack.",
    ),
    Setting(
        "leader.replication.throttled.rate",
        _T.LONG,
        LONG_MAX,
        "Bytes per second that leaders send to the replicas of leader.replication.throttled.replicas.",
        minimum=0,
        scope=Scope.CLUSTER_WIDE,
    ),
    Setting(
        "follower.replication.throttled.rate",
        _T.LONG,
        LONG_MAX,
        "Bytes per second that the replicas of follower.replication.throttled.replicas fetch.",
        minimum=0,
        scope=Scope.CLUSTER_WIDE,
    ),
    Setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        _T.LONG,
        LONG_MAX,
        "Bytes per second that are copied from one log directory to another.",
        minimum=0,
        scope=Scope.CLUSTER_WIDE,
    ),
]
