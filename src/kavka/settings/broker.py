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
        "broker.id", _T.INT, -1, "The broker's number; -1 asks for a generated one.", minimum=-1
    ),
    Setting(
        "reserved.broker.max.id",
        _T.INT,
        1_000,
        "The largest number that may be given as broker.id; generated ones lie above.",
        minimum=0,
    ),
    Setting(
        "broker.id.generation.enable",
        _T.BOOLEAN,
        True,
        "True generates an id for a broker without broker.id.",
    ),
    Setting(
        "broker.rack",
        _T.STRING,
        None,
        "The broker's rack, for placement of replicas.",
    ),
    Setting(
        "log.dir",
        _T.STRING,
        "/tmp/kafka-logs",
        "The log directory when log.dirs is not set.",
    ),
    Setting(
        "log.dirs",
        _T.LIST,
        None,
        "Directories of logs, separated by commas.",
        reported_type=_T.STRING,
    ),
    Setting(
        "listeners",
        _T.LIST,
        ["PLAINTEXT://127.0.0.1:9092"],
        "Listeners of the broker: NAME://host:port, separated by commas; port 0 takes a free one.",
        reported_type=_T.STRING,
        scope=Scope.PER_BROKER,
    ),
    Setting(
        "advertised.listeners",
        _T.LIST,
        None,
        "Listeners for clients to use, if different from listeners.",
        reported_type=_T.STRING,
        scope=Scope.PER_BROKER,
    ),
    Setting(
        "listener.security.protocol.map",
        _T.LIST,
        ["PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"],
        "The security protocol of each listener name.",
        reported_type=_T.STRING,
        scope=Scope.PER_BROKER,
    ),
    Setting(
        "num.partitions",
        _T.INT,
        1,
        "Partitions of a topic that is created without a number.",
        minimum=1,
    ),
    Setting(
        "default.replication.factor",
        _T.INT,
        1,
        "Replicas of a topic that is created without a number.",
        minimum=1,
    ),
    Setting(
        "auto.create.topics.enable",
        _T.BOOLEAN,
        True,
        "True enables automatic creation of topics by clients' metadata requests.",
    ),
    Setting(
        "delete.topic.enable",
        _T.BOOLEAN,
        True,
        "True enables deletion of topics.",
    ),
    Setting(
        "message.max.bytes",
        _T.INT,
        1_048_588,
        "The largest batch that is accepted, in bytes.",
        minimum=0,
        scope=_ANYWHERE,
    ),
    Setting(
        "min.insync.replicas",
        _T.INT,
        1,
        "Minimum number of in-sync replicas for a write with acks=all.",
        minimum=1,
        scope=_ANYWHERE,
    ),
    Setting(
        "socket.request.max.bytes",
        _T.INT,
        104_857_600,
        "The largest request; a larger one closes the connection.",
        minimum=1,
    ),
    Setting(
        "socket.send.buffer.bytes",
        _T.INT,
        -1,
        "SO_SNDBUF of server sockets; -1, not Kafka's 102400, leaves its size to the kernel.",
    ),
    Setting(
        "socket.receive.buffer.bytes",
        _T.INT,
        -1,
        "SO_RCVBUF of server sockets; -1, not Kafka's 102400, leaves its size to the kernel.",
    ),
    Setting(
        "socket.listen.backlog.size",
        _T.INT,
        50,
        "Connections that may wait to be accepted.",
        minimum=1,
    ),
    Setting(
        "connections.max.idle.ms",
        _T.LONG,
        600_000,
        "After so long without a request a connection is closed.",
    ),
    Setting(
        "fetch.max.bytes",
        _T.INT,
        57_671_680,
        "The most bytes that one Fetch response holds, beyond a first batch.",
        minimum=1024,
    ),
    Setting(
        "max.incremental.fetch.session.cache.slots",
        _T.INT,
        1_000,
        "Maximum number of incremental fetch sessions.",
        minimum=0,
    ),
    Setting(
        "producer.id.expiration.ms",
        _T.INT,
        86_400_000,
        "Time after which an idle producer id expires in a partition.",
        minimum=1,
        scope=_ANYWHERE,
    ),
    Setting(
        "producer.id.expiration.check.interval.ms",
        _T.INT,
        600_000,
        "Interval of the check for expired producer ids.",
        minimum=1,
    ),
    Setting(
        "kavka.log.level",
        _T.LIST,
        ["INFO"],
        "Log level: DEBUG, INFO, WARNING or ERROR.",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
    ),
    Setting(
        "kavka.event.loop.stall.warn.ms",
        _T.INT,
        200,
        "Duration from which on an iteration of the event loop is a stall: counted, and logged with its API.",
        minimum=1,
    ),
    Setting(
        "kavka.metrics.port",
        _T.INT,
        None,
        "Port of GET /metrics in Prometheus' text format; 0 takes a free one. Without it no metrics are served.",
        minimum=0,
        maximum=65535,
    ),
    Setting(
        "kavka.metrics.host",
        _T.STRING,
        "127.0.0.1",
        "The address of kavka.metrics.port. Beyond loopback, close it by kavka.metrics.security.protocol and "
        "kavka.metrics.users.file.",
    ),
    Setting(
        "kavka.metrics.users.file",
        _T.STRING,
        None,
        "File with the users that may read kavka.metrics.port and their hashed passwords, as kavka metrics-users and "
        "htpasswd -B write it; it may change at any time. Without it no password is asked for.",
    ),
    Setting(
        "kavka.metrics.security.protocol",
        _T.STRING,
        "PLAINTEXT",
        "SSL serves the metrics over HTTPS, by ssl.* or listener.name.metrics.ssl.*; "
        "listener.name.metrics.ssl.client.auth=required asks readers for a certificate.",
        choices=("PLAINTEXT", "SSL"),
    ),
    Setting(
        "kavka.console.port",
        _T.INT,
        None,
        "Port of the console (extra console) on this machine's loopback, in a process beside a lone broker; 0 takes a "
        "free one, which the log names. Without it there is none.",
        minimum=0,
        maximum=65535,
    ),
    Setting(
        "kavka.console.config",
        _T.STRING,
        None,
        "Properties file with the client settings of kavka.console.port, which needs them where no listener is "
        "PLAINTEXT.",
    ),
    Setting(
        "num.recovery.threads.per.data.dir",
        _T.INT,
        1,
        "Logs of each directory that are opened or recovered concurrently at the start, and closed at the stop.",
        minimum=1,
        scope=_ANYWHERE,
        fixed=True,
    ),
    Setting(
        "kavka.io.threads",
        _T.INT,
        4,
        "Threads that run blocking system calls: fsync, cold reads.",
        minimum=1,
    ),
    Setting(
        "kavka.connection.max.in.flight",
        _T.INT,
        64,
        "Requests of one connection in work at one time; more are not read.",
        minimum=1,
    ),
    Setting(
        "kavka.connection.max.in.flight.bytes",
        _T.INT,
        16_777_216,
        "Bytes of requests of one connection in work at one time; more are not read.",
        minimum=1,
    ),
    Setting(
        "kavka.connection.send.queue.bytes",
        _T.INT,
        1_048_576,
        "Responses of one connection that may wait in memory before its requests are no longer read.",
        minimum=65536,
    ),
    Setting(
        "kavka.request.decoded.max.bytes",
        _T.INT,
        67_108_864,
        "Maximum memory of one decoded request, with other bounds for some APIs; a larger one closes its connection.",
        minimum=1_048_576,
    ),
    Setting(
        "kavka.requests.decoded.max.bytes",
        _T.INT,
        268_435_456,
        "Memory that all large requests in work may take together when they are decoded. More of them wait.",
        minimum=1_048_576,
    ),
    Setting(
        "kavka.response.max.bytes",
        _T.INT,
        268_435_456,
        "The largest response, without records. A request whose response is larger closes its connection.",
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
