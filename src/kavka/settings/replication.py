"""Settings of replication: fetching of followers, the in-sync set, throttles."""

from __future__ import annotations

from kavka.settings.declaration import LONG_MAX, Scope, Setting, ValueType

_T = ValueType

REPLICATION_SETTINGS: list[Setting] = [
    Setting(
        "inter.broker.listener.name",
        _T.STRING,
        None,
        "Name of the listener through which brokers talk to one another. Unset: the one with "
        "security.inter.broker.protocol.",
    ),
    Setting(
        "security.inter.broker.protocol",
        _T.STRING,
        "PLAINTEXT",
        "Security protocol of the listener through which brokers talk to one another, when "
        "inter.broker.listener.name is not set.",
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    Setting(
        "num.replica.fetchers",
        _T.INT,
        1,
        "Connections on which a follower fetches from each leader: more replicate partitions in parallel.",
        minimum=1,
        scope=Scope.CLUSTER_WIDE,
    ),
    Setting(
        "replica.fetch.max.bytes",
        _T.INT,
        1_048_576,
        "Maximum bytes of one partition in a follower's fetch; a larger first batch is fetched nevertheless.",
        minimum=0,
    ),
    Setting(
        "replica.fetch.response.max.bytes",
        _T.INT,
        10_485_760,
        "Maximum bytes of all partitions in a follower's fetch; a larger first batch is fetched nevertheless.",
        minimum=0,
    ),
    Setting(
        "replica.fetch.wait.max.ms",
        _T.INT,
        500,
        "Maximum time in milliseconds that a leader holds a follower's fetch for replica.fetch.min.bytes. Keep it "
        "below replica.lag.time.max.ms.",
        minimum=0,
    ),
    Setting(
        "replica.fetch.min.bytes",
        _T.INT,
        1,
        "Bytes for which a leader holds a follower's fetch, at most for replica.fetch.wait.max.ms.",
        minimum=0,
    ),
    Setting(
        "replica.fetch.backoff.ms",
        _T.INT,
        1_000,
        "Maximum wait in milliseconds of a follower after a failed fetch; it begins with 10 ms and doubles.",
        minimum=0,
    ),
    Setting(
        "replica.lag.time.max.ms",
        _T.LONG,
        30_000,
        "Time in milliseconds without catching up with the leader after which a replica leaves the in-sync set.",
        minimum=1,
    ),
    Setting(
        "replica.socket.timeout.ms",
        _T.INT,
        30_000,
        "Timeout in milliseconds of a follower's requests to the leader.",
        minimum=1,
    ),
    Setting(
        "replica.selector.class",
        _T.STRING,
        None,
        "Choice of the replica that a consumer reads: org.apache.kafka.common.replica.RackAwareReplicaSelector "
        "chooses one in the rack of its client.rack. Unset: the leader.",
    ),
    Setting(
        "leader.replication.throttled.rate",
        _T.LONG,
        LONG_MAX,
        "Maximum bytes per second that this broker sends as leader of the replicas in "
        "leader.replication.throttled.replicas.",
        minimum=0,
        scope=Scope.CLUSTER_WIDE,
    ),
    Setting(
        "follower.replication.throttled.rate",
        _T.LONG,
        LONG_MAX,
        "Maximum bytes per second that this broker fetches for the replicas in "
        "follower.replication.throttled.replicas.",
        minimum=0,
        scope=Scope.CLUSTER_WIDE,
    ),
    Setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        _T.LONG,
        LONG_MAX,
        "Maximum bytes per second that moves of replicas between log directories copy.",
        minimum=0,
        scope=Scope.CLUSTER_WIDE,
    ),
]
