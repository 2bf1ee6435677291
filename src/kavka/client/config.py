"""Settings of producer, consumer and admin client: Kafka's names, the Java client's defaults but `batch.size`. Pure.

Values may be given as text (from a properties file), or as Python numbers, booleans and lists. Settings that name
a class in Java take a Python object here: a callable for (de)serializers and `partitioner.class`, a list of
objects for `interceptor.classes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kavka.client.sasl_settings import SASL
from kavka.client.tls_settings import TLS_SETTINGS, WITHOUT_EFFECT
from kavka.settings.declaration import (
    Catalogue,
    InvalidSetting,
    Setting,
    Value,
    ValueType,
    whole_number,
)

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_INT_MAX = 2**31 - 1
_INT, _LONG, _TEXT = ValueType.INT, ValueType.LONG, ValueType.STRING
_BOOL, _LIST, _CLASS = ValueType.BOOLEAN, ValueType.LIST, ValueType.CLASS


def _addresses(value: Value) -> str | None:
    if not value:
        return "Give at least one broker as host:port"
    for item in value if isinstance(value, list) else [str(value)]:
        host, colon, port = item.rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            return f"{item!r} is not host:port"
    return None


def _protocol_fault(value: Value) -> str | None:
    if str(value).upper() in _PROTOCOLS:
        return None
    return f"String must be one of: {', '.join(_PROTOCOLS)}"


def _not_empty(value: Value) -> str | None:
    return None if value is None or str(value).strip() else "String must be non-empty"


def _classic_protocol(value: Value) -> str | None:
    if str(value).lower() == "classic":
        return None
    return "Only the classic group protocol is supported by this release"


def _common() -> list[Setting]:
    return [
        Setting("bootstrap.servers", _LIST, None,
                "Brokers to connect to first, as host:port,host:port; the others are found through them.",
                check=_addresses),
        Setting("client.id", _TEXT, "", "Name of this client in brokers' logs, metrics and quotas."),
        Setting("client.rack", _TEXT, "",
                "Rack of this client: assignors prefer partitions with a replica there, and brokers with a replica "
                "selector let it read from that one."),
        Setting("metadata.max.age.ms", _LONG, 300_000,
                "Age in milliseconds at which metadata is refreshed, so that new partitions and brokers are noticed.",
                minimum=0),
        Setting("request.timeout.ms", _INT, 30_000,
                "Time in milliseconds without a response after which a request has failed; what can be sent again is.",
                minimum=0),
        Setting("retry.backoff.ms", _LONG, 100,
                "Wait in milliseconds before the first retry of a request; it doubles up to retry.backoff.max.ms.",
                minimum=0),
        Setting("retry.backoff.max.ms", _LONG, 1000,
                "Maximum wait in milliseconds before a retry of a request.", minimum=0),
        Setting("reconnect.backoff.ms", _LONG, 50,
                "Wait in milliseconds before the first new connection to a broker after one failed; it doubles up "
                "to reconnect.backoff.max.ms.", minimum=0),
        Setting("reconnect.backoff.max.ms", _LONG, 1000,
                "Maximum wait in milliseconds before a new connection to a broker.", minimum=0),
        Setting("connections.max.idle.ms", _LONG, 540_000,
                "Idle time in milliseconds after which a connection is closed; -1 closes none."),
        Setting("socket.connection.setup.timeout.ms", _LONG, 10_000,
                "Maximum time in milliseconds of one attempt to connect.", minimum=1),
        Setting("security.protocol", _TEXT, "PLAINTEXT",
                "Protocol to brokers: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.", check=_protocol_fault),
        Setting("metric.reporters", _CLASS, None,
                "Reporters of metrics: objects with attach and detach, such as PrometheusReporter()."),
        Setting("metrics.num.samples", _INT, 2,
                "Number of samples over which rates and averages are measured.", minimum=1),
        Setting("metrics.sample.window.ms", _LONG, 30_000, "Length of a sample in milliseconds.", minimum=1),
        *SASL,
        *TLS_SETTINGS,
        *_ineffective(
            "metrics.recording.level",
            "auto.include.jmx.reporter", "client.dns.lookup", "enable.metrics.push", "send.buffer.bytes",
            "receive.buffer.bytes", "security.providers", "socket.connection.setup.timeout.max.ms",
            "metadata.recovery.strategy", *WITHOUT_EFFECT,
        ),
    ]  # fmt: skip


def _ineffective(*names: str) -> Iterable[Setting]:
    return (
        Setting(name, _TEXT, None, "Known for compatibility; it has no effect.", effective=False)
        for name in names
    )


PRODUCER = Catalogue([
    *_common(),
    Setting("acks", _TEXT, "all",
            "Replicas that must have a record before it counts as written: all (or -1) those in sync, 1 the "
            "leader, 0 none, and then failures are not noticed.", choices=("all", "-1", "0", "1")),
    Setting("enable.idempotence", _BOOL, True,
            "True writes each record once and in order, also when requests are repeated. It needs acks=all, "
            "retries above 0 and at most 5 requests in flight."),
    Setting("batch.size", _INT, 262_144,
            "Maximum bytes of a batch of records of one partition; 0 sends each record in a batch of its own.",
            minimum=0),
    Setting("linger.ms", _LONG, 0,
            "Time in milliseconds that a batch waits for more records: larger batches for later delivery.", minimum=0),
    Setting("buffer.memory", _LONG, 33_554_432,
            "Maximum bytes of records that wait to be sent; above it `send` waits up to max.block.ms, and `append` "
            "raises BufferFull.", minimum=0),
    Setting("max.block.ms", _LONG, 60_000,
            "Maximum time in milliseconds that calls wait for metadata, memory or the transaction coordinator.",
            minimum=0),
    Setting("max.request.size", _INT, 1_048_576,
            "Maximum bytes of a record, and of a request; a larger record is refused (MESSAGE_TOO_LARGE).", minimum=0),
    Setting("max.in.flight.requests.per.connection", _INT, 5,
            "Maximum number of requests without a response on one connection. Above 1 and without idempotence, "
            "retries may change the order of records.", minimum=1),
    Setting("retries", _INT, _INT_MAX,
            "Maximum number of retries of a batch within delivery.timeout.ms.", minimum=0, maximum=_INT_MAX),
    Setting("delivery.timeout.ms", _INT, 120_000,
            "Maximum time in milliseconds from taking a record until it is written or has failed, retries included.",
            minimum=0),
    Setting("compression.type", _TEXT, "none",
            "Codec with which batches are compressed.", choices=("none", "gzip", "snappy", "lz4", "zstd")),
    Setting("compression.gzip.level", _INT, -1,
            "Level of gzip: 1 to 9, or -1 for the library's default; higher is smaller and slower.",
            minimum=-1, maximum=9),
    Setting("compression.lz4.level", _INT, 9, "Level of lz4; higher is smaller and slower.", minimum=1, maximum=17),
    Setting("compression.zstd.level", _INT, 3,
            "Level of zstd; higher is smaller and slower.", minimum=-131_072, maximum=22),
    Setting("key.serializer", _CLASS, None,
            "Callable that is given a key, or a key and a context, and returns bytes. Unset: keys are bytes."),
    Setting("value.serializer", _CLASS, None,
            "Callable that is given a value, or a value and a context, and returns bytes. Unset: values are bytes."),
    Setting("partitioner.class", _CLASS, None,
            "Choice of the partition: `roundrobin`, or a callable. Unset: by the key's hash (murmur2, as in Java); "
            "without a key, batch by batch."),
    Setting("partitioner.ignore.keys", _BOOL, False, "True chooses partitions as if records had no keys."),
    Setting("interceptor.classes", _CLASS, None,
            "Interceptors: objects with on_send and on_acknowledgement, called in order."),
    Setting("transactional.id", _TEXT, None,
            "Id of a transactional producer, the same after a restart: a newer producer with the id fences the "
            "older one. Unset: no transactions.", check=_not_empty),
    Setting("transaction.timeout.ms", _INT, 60_000,
            "Time in milliseconds after which the coordinator aborts a transaction that is still open.", minimum=0),
    Setting("transaction.two.phase.commit.enable", _BOOL, False,
            "True gives transactions no timeout (KIP-939), where the brokers' setting of the same name allows it."),
    *_ineffective("metadata.max.idle.ms", "partitioner.adaptive.partitioning.enable",
                  "partitioner.availability.timeout.ms"),
])  # fmt: skip

CONSUMER = Catalogue([
    *_common(),
    Setting("group.id", _TEXT, None, "Group to which the consumer belongs; needed by subscribe and by commits."),
    Setting("group.instance.id", _TEXT, None,
            "Id of a static member (KIP-345): it may restart within session.timeout.ms without a rebalance."),
    Setting("group.protocol", _TEXT, "classic",
            "Group protocol: classic, the only one in this release.", check=_classic_protocol),
    Setting("session.timeout.ms", _INT, 45_000,
            "Time in milliseconds without a heartbeat after which the coordinator removes the member, and its "
            "partitions go to others.", minimum=1),
    Setting("heartbeat.interval.ms", _INT, 3_000,
            "Interval of heartbeats in milliseconds; it must be below session.timeout.ms, as a rule a third of it.",
            minimum=1),
    Setting("max.poll.interval.ms", _INT, 300_000,
            "Maximum time in milliseconds between two polls; a consumer that takes longer leaves its group.",
            minimum=1),
    Setting("max.poll.records", _INT, 500, "Maximum number of records that one poll returns.", minimum=1),
    Setting("partition.assignment.strategy", _CLASS, None,
            "Assignors in order of preference: range, roundrobin, sticky, cooperative-sticky, Java's class names, "
            "or objects. Unset: range, then cooperative-sticky."),
    Setting("enable.auto.commit", _BOOL, True,
            "True commits positions in the background of polls: what was returned before the last poll counts as "
            "processed."),
    Setting("auto.commit.interval.ms", _INT, 5_000, "Interval of automatic commits in milliseconds.", minimum=0),
    Setting("auto.offset.reset", _TEXT, "latest",
            "Position where there is no valid committed offset: latest (the end), earliest (the first record), or "
            "none (an error).", choices=("latest", "earliest", "none")),
    Setting("fetch.min.bytes", _INT, 1,
            "Bytes for which a broker holds a fetch, at most for fetch.max.wait.ms: more are larger and later "
            "responses.", minimum=0),
    Setting("fetch.max.bytes", _INT, 52_428_800,
            "Maximum bytes of a Fetch response; a larger first batch is returned nevertheless.", minimum=0),
    Setting("fetch.max.wait.ms", _INT, 500,
            "Maximum time in milliseconds that a broker holds a fetch for fetch.min.bytes.", minimum=0),
    Setting("max.partition.fetch.bytes", _INT, 1_048_576,
            "Maximum bytes of one partition in a Fetch response; a larger first batch is returned nevertheless.",
            minimum=0),
    Setting("isolation.level", _TEXT, "read_uncommitted",
            "read_committed returns records of committed transactions only, up to the first open one; "
            "read_uncommitted returns all.", choices=("read_uncommitted", "read_committed")),
    Setting("check.crcs", _BOOL, True, "True checks the CRC of every batch; a wrong one raises CorruptRecordError."),
    Setting("allow.auto.create.topics", _BOOL, True,
            "True lets brokers create topics that are subscribed to and do not exist, where "
            "auto.create.topics.enable allows it."),
    Setting("exclude.internal.topics", _BOOL, True,
            "True keeps internal topics, such as __consumer_offsets, out of subscriptions by pattern."),
    Setting("default.api.timeout.ms", _INT, 60_000, "Timeout in milliseconds of calls that are given none.", minimum=0),
    Setting("key.deserializer", _CLASS, None,
            "Callable that is given bytes, or bytes and a context, and returns a key. Unset: keys are bytes."),
    Setting("value.deserializer", _CLASS, None,
            "Callable that is given bytes, or bytes and a context, and returns a value. Unset: values are bytes."),
    Setting("interceptor.classes", _CLASS, None,
            "Interceptors: objects with on_consume and on_commit, called in order."),
    *_ineffective("group.remote.assignor"),
])  # fmt: skip

ADMIN = Catalogue([
    *_common(),
    Setting("default.api.timeout.ms", _INT, 60_000, "Timeout in milliseconds of calls that are given none.", minimum=0),
    Setting("retries", _INT, _INT_MAX,
            "Maximum number of retries of a request within its timeout.", minimum=0, maximum=_INT_MAX),
    *_ineffective("bootstrap.controllers"),
])  # fmt: skip


class Config:
    """Checked settings of one client; reading a name that is not declared is a bug and raises KeyError."""

    def __init__(self, catalogue: Catalogue, given: Mapping[str, Any]) -> None:
        """Check the values of `given`; its names are checked by `setting_names`.

        Raise InvalidSetting, a ValueError that names the setting.
        """
        self.given = frozenset(given)
        self._values: dict[str, Any] = {}
        for setting in catalogue:
            if setting.name in given:
                self._values[setting.name] = _parse(setting, given[setting.name])
            else:
                self._values[setting.name] = setting.default
        if not self._values["bootstrap.servers"]:
            raise InvalidSetting("bootstrap.servers", None, "Give at least one broker as host:port")

    def integer(self, name: str) -> int:
        """Return a whole number."""
        return whole_number(self._values, name)

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        value = self._values[name]
        assert isinstance(value, bool), name
        return value

    def text(self, name: str) -> str:
        """Return a text that has a default."""
        value = self._values[name]
        assert isinstance(value, str), name
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None when it was not given."""
        value = self._values[name]
        assert value is None or isinstance(value, str), name
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""
        value = self._values[name]
        assert isinstance(value, list), name
        return value

    def value(self, name: str) -> Any:
        """Return what was given for a setting that names a class in Java."""
        return self._values[name]

    def addresses(self) -> list[tuple[str, int]]:
        """Return `bootstrap.servers` as (host, port)."""
        split = (item.rpartition(":") for item in self.texts("bootstrap.servers"))
        return [(host.strip("[]"), int(port)) for host, _, port in split]

    def interceptors(self, *methods: str) -> list[Any]:
        """Return the objects of `interceptor.classes`. Raise InvalidSetting for one that lacks a method."""
        name = "interceptor.classes"
        given = self.value(name) or ()
        for one in given if isinstance(given, list | tuple) else (given,):
            if isinstance(one, type) or not all(callable(getattr(one, m, None)) for m in methods):
                raise InvalidSetting(name, one, f"Give objects with {' and '.join(methods)}")
        return list(given) if isinstance(given, list | tuple) else [given]


def _parse(setting: Setting, value: Any) -> Any:
    if setting.type is ValueType.CLASS or value is None:
        return value if setting.type is ValueType.CLASS else setting.default
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, list | tuple) and setting.type is ValueType.LIST:
        value = ",".join(str(item) for item in value)
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    elif not isinstance(value, str | int | float):
        shown = "[hidden]" if setting.is_sensitive else value
        raise InvalidSetting(setting.name, shown, f"Not a value of type {setting.type.name}")
    return setting.parse(str(value))
