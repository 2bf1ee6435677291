"""Broker settings that have an effect, in Kafka's names; docs/reference/settings.md names other defaults.

Where Kafka derives a default from another setting (`log.retention.ms` from minutes and hours), `resolve_defaults` does.
Names that begin with `kavka.` are ours.
"""

from __future__ import annotations

from kavka.settings.access import ACCESS_SETTINGS, PASSWORD_SETTINGS
from kavka.settings.cleaner import CLEANER_SETTINGS
from kavka.settings.cluster import CLUSTER_SETTINGS
from kavka.settings.connections import CONNECTION_SETTINGS, QUOTA_SETTINGS
from kavka.settings.declaration import Catalogue, Scope, Setting, Value, ValueType
from kavka.settings.groups import GROUP_SETTINGS
from kavka.settings.known import KNOWN_SETTINGS
from kavka.settings.log import LOG_SETTINGS
from kavka.settings.replication import REPLICATION_SETTINGS
from kavka.settings.sasl import SASL_SETTINGS, TOKEN_SETTINGS
from kavka.settings.tls import TLS_SETTINGS, ZOOKEEPER_TLS_SETTINGS
from kavka.settings.transactions import TRANSACTION_SETTINGS

_T = ValueType
_ANYWHERE = Scope.CLUSTER_WIDE

EFFECTIVE_SETTINGS: list[Setting] = [
    Setting(
        "broker.id",
        _T.INT,
        -1,
        "The broker's id, which no other broker of the cluster may have; -1 has one generated above "
        "reserved.broker.max.id.",
        minimum=-1,
    ),
    Setting(
        "reserved.broker.max.id",
        _T.INT,
        1_000,
        "Largest id that may be given as broker.id; generated ids begin above it.",
        minimum=0,
    ),
    Setting(
        "broker.id.generation.enable",
        _T.BOOLEAN,
        True,
        "True generates an id for a broker without broker.id; false refuses to start such a broker.",
    ),
    Setting(
        "broker.rack",
        _T.STRING,
        None,
        "Rack (or availability zone) of the broker. Replicas of a partition are spread over racks; with "
        "replica.selector.class, consumers read in the rack of their client.rack.",
    ),
    Setting(
        "log.dir",
        _T.STRING,
        "/tmp/kafka-logs",
        "Log directory, or several separated by commas, when log.dirs is not set. Data below /tmp may be lost at a "
        "reboot.",
    ),
    Setting(
        "log.dirs",
        _T.LIST,
        None,
        "Log directories, separated by commas: a new partition goes to the one with the fewest. One that fails goes "
        "offline, the others go on.",
        reported_type=_T.STRING,
    ),
    Setting(
        "listeners",
        _T.LIST,
        ["PLAINTEXT://127.0.0.1:9092"],
        "Addresses to listen on: NAME://host:port, separated by commas; without a host all interfaces, and port 0 "
        "takes a free one.",
        reported_type=_T.STRING,
        scope=Scope.PER_BROKER,
    ),
    Setting(
        "advertised.listeners",
        _T.LIST,
        None,
        "Addresses that clients and other brokers are given to connect to, in the form of listeners; by default "
        "listeners.",
        reported_type=_T.STRING,
        scope=Scope.PER_BROKER,
    ),
    Setting(
        "listener.security.protocol.map",
        _T.LIST,
        ["PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"],
        "Security protocol of each listener name, as NAME:PROTOCOL: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        reported_type=_T.STRING,
        scope=Scope.PER_BROKER,
    ),
    Setting(
        "num.partitions",
        _T.INT,
        1,
        "Number of partitions of a topic that is created automatically, or without a number.",
        minimum=1,
    ),
    Setting(
        "default.replication.factor",
        _T.INT,
        1,
        "Replication factor of a topic that is created automatically, or without a replication factor.",
        minimum=1,
    ),
    Setting(
        "auto.create.topics.enable",
        _T.BOOLEAN,
        True,
        "True creates a topic when a producer or a consumer asks for one that does not exist.",
    ),
    Setting(
        "delete.topic.enable",
        _T.BOOLEAN,
        True,
        "True allows deletion of topics; false refuses such requests.",
    ),
    Setting(
        "message.max.bytes",
        _T.INT,
        1_048_588,
        "Largest record batch that is accepted, in bytes after compression; a larger one gets MESSAGE_TOO_LARGE. "
        "Default of max.message.bytes of topics.",
        minimum=0,
        scope=_ANYWHERE,
    ),
    Setting(
        "min.insync.replicas",
        _T.INT,
        1,
        "Number of in-sync replicas below which a write with acks=all is refused (NOT_ENOUGH_REPLICAS). Default of "
        "min.insync.replicas of topics.",
        minimum=1,
        scope=_ANYWHERE,
    ),
    Setting(
        "socket.request.max.bytes",
        _T.INT,
        104_857_600,
        "Largest request in bytes; a larger one closes its connection.",
        minimum=1,
    ),
    Setting(
        "socket.send.buffer.bytes",
        _T.INT,
        -1,
        "SO_SNDBUF of the listeners' sockets in bytes; -1, unlike Kafka's 102400, leaves it to the operating system.",
    ),
    Setting(
        "socket.receive.buffer.bytes",
        _T.INT,
        -1,
        "SO_RCVBUF of the listeners' sockets in bytes; -1, unlike Kafka's 102400, leaves it to the operating system.",
    ),
    Setting(
        "socket.listen.backlog.size",
        _T.INT,
        50,
        "Connections of one listener that may wait in the operating system to be accepted.",
        minimum=1,
    ),
    Setting(
        "connections.max.idle.ms",
        _T.LONG,
        600_000,
        "Idle time in milliseconds after which a connection is closed; a negative value closes none.",
    ),
    Setting(
        "fetch.max.bytes",
        _T.INT,
        57_671_680,
        "Maximum bytes of records in one Fetch response, whatever the consumer asks for; the first batch is "
        "returned even if it is larger.",
        minimum=1024,
    ),
    Setting(
        "max.incremental.fetch.session.cache.slots",
        _T.INT,
        1_000,
        "Maximum number of incremental fetch sessions (KIP-227). Beyond it a consumer or follower names all its "
        "partitions in each fetch.",
        minimum=0,
    ),
    Setting(
        "producer.id.expiration.ms",
        _T.INT,
        86_400_000,
        "Time in milliseconds after which a partition forgets a producer id that wrote nothing; later retries of "
        "that producer are no longer recognised as duplicates.",
        minimum=1,
        scope=_ANYWHERE,
    ),
    Setting(
        "producer.id.expiration.check.interval.ms",
        _T.INT,
        600_000,
        "Interval in milliseconds at which expired producer ids are removed.",
        minimum=1,
    ),
    Setting(
        "kavka.log.level",
        _T.LIST,
        ["INFO"],
        "Least severity that is logged. With INFO the log has state changes, warnings and errors; DEBUG adds details.",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
    ),
    Setting(
        "kavka.event.loop.stall.warn.ms",
        _T.INT,
        200,
        "Duration in milliseconds from which an iteration of the event loop counts as a stall, and is logged with "
        "the API that took it.",
        minimum=1,
    ),
    Setting(
        "kavka.metrics.port",
        _T.INT,
        None,
        "Port that serves metrics as GET /metrics in Prometheus' text format; 0 takes a free one. Unset: no metrics "
        "are served.",
        minimum=0,
        maximum=65535,
    ),
    Setting(
        "kavka.metrics.host",
        _T.STRING,
        "127.0.0.1",
        "Address on which kavka.metrics.port listens. On an address beyond loopback, protect it by "
        "kavka.metrics.security.protocol and kavka.metrics.users.file.",
    ),
    Setting(
        "kavka.metrics.users.file",
        _T.STRING,
        None,
        "File of users with hashed passwords that may read the metrics, as written by `kavka metrics-users` or "
        "`htpasswd -B`; changes are read without a restart. Unset: no password is asked for.",
    ),
    Setting(
        "kavka.metrics.security.protocol",
        _T.STRING,
        "PLAINTEXT",
        "Protocol of kavka.metrics.port. SSL serves HTTPS with the key store of ssl.* or "
        "listener.name.metrics.ssl.*; listener.name.metrics.ssl.client.auth=required asks readers for a "
        "certificate.",
        choices=("PLAINTEXT", "SSL"),
    ),
    Setting(
        "kavka.console.port",
        _T.INT,
        None,
        "Port on 127.0.0.1 of the web console, a process that a broker without zookeeper.connect starts (needs "
        "`kavka[console]`); 0 takes a free one, which the log names. Unset: no console.",
        minimum=0,
        maximum=65535,
    ),
    Setting(
        "kavka.console.config",
        _T.STRING,
        None,
        "Properties file with the console's client settings. kavka.console.port needs it where no listener is "
        "PLAINTEXT.",
    ),
    Setting(
        "num.recovery.threads.per.data.dir",
        _T.INT,
        1,
        "Logs of each log directory that are opened or recovered at the same time at the start, and closed at the "
        "stop.",
        minimum=1,
        scope=_ANYWHERE,
        fixed=True,
    ),
    Setting(
        "kavka.io.threads",
        _T.INT,
        4,
        "Threads for system calls that block, such as fsync and reads that miss the page cache.",
        minimum=1,
    ),
    Setting(
        "kavka.connection.max.in.flight",
        _T.INT,
        64,
        "Requests of one connection that may be in progress at a time; at the limit the connection is not read "
        "until one is answered.",
        minimum=1,
    ),
    Setting(
        "kavka.connection.max.in.flight.bytes",
        _T.INT,
        16_777_216,
        "Bytes of requests of one connection that may be in progress at a time; at the limit the connection is not "
        "read until one is answered.",
        minimum=1,
    ),
    Setting(
        "kavka.connection.send.queue.bytes",
        _T.INT,
        1_048_576,
        "Bytes of responses of one connection that may wait in memory for a slow client; at the limit its requests "
        "are not read.",
        minimum=65536,
    ),
    Setting(
        "kavka.request.decoded.max.bytes",
        _T.INT,
        67_108_864,
        "Maximum memory in bytes of one request after decoding (some APIs have bounds of their own); a larger one "
        "closes its connection.",
        minimum=1_048_576,
    ),
    Setting(
        "kavka.requests.decoded.max.bytes",
        _T.INT,
        268_435_456,
        "Maximum memory in bytes of all large requests in progress after decoding; beyond it, large requests wait "
        "for one another.",
        minimum=1_048_576,
    ),
    Setting(
        "kavka.response.max.bytes",
        _T.INT,
        268_435_456,
        "Maximum bytes of a response, records not counted; a request that would get a larger one closes its "
        "connection.",
        minimum=1_048_576,
    ),
]

BROKER_SETTINGS = Catalogue(
    [
        *EFFECTIVE_SETTINGS,
        *ACCESS_SETTINGS,
        *LOG_SETTINGS,
        *GROUP_SETTINGS,
        *CONNECTION_SETTINGS,
        *QUOTA_SETTINGS,
        *CLUSTER_SETTINGS,
        *CLEANER_SETTINGS,
        *PASSWORD_SETTINGS,
        *REPLICATION_SETTINGS,
        *SASL_SETTINGS,
        *TLS_SETTINGS,
        *TOKEN_SETTINGS,
        *TRANSACTION_SETTINGS,
        *ZOOKEEPER_TLS_SETTINGS,
        *KNOWN_SETTINGS,
    ]
)

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000


_SAME_MEANING = (
    ["log.retention.ms", "log.retention.minutes", "log.retention.hours"],
    ["log.roll.ms", "log.roll.hours"],
    ["log.roll.jitter.ms", "log.roll.jitter.hours"],
)


def same_meaning(name: str) -> list[str]:
    """Return the names that stand for the same as `name`, the strongest first."""
    if name == "log.flush.interval.ms":  # the scheduler's has a meaning of its own
        return [name, "log.flush.scheduler.interval.ms"]
    return next((names for names in _SAME_MEANING if name in names), [name])


def resolve_defaults(values: dict[str, Value]) -> None:
    """Fill in, in place, the settings with another setting as default, as Kafka does."""
    minutes, hours = values["log.retention.minutes"], values["log.retention.hours"]
    if values["log.retention.ms"] is None:
        retention = minutes * _MINUTE_MS if isinstance(minutes, int) else _whole(hours) * _HOUR_MS
        values["log.retention.ms"] = retention if retention >= 0 else -1
    if values["log.roll.ms"] is None:
        values["log.roll.ms"] = _whole(values["log.roll.hours"]) * _HOUR_MS
    if values["log.roll.jitter.ms"] is None:
        values["log.roll.jitter.ms"] = _whole(values["log.roll.jitter.hours"]) * _HOUR_MS
    if values["log.flush.interval.ms"] is None:
        values["log.flush.interval.ms"] = values["log.flush.scheduler.interval.ms"]
    if values["log.dirs"] is None:
        directory = values["log.dir"]
        assert isinstance(directory, str)
        values["log.dirs"] = [part.strip() for part in directory.split(",")]
    if values["advertised.listeners"] is None:
        values["advertised.listeners"] = values["listeners"]


def _whole(value: Value) -> int:
    assert isinstance(value, int)
    return value
