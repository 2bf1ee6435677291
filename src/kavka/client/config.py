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
        Setting("bootstrap.servers", _LIST, None, "Brokers as host:port,... from which the others are learnt.",
                check=_addresses),
        Setting("client.id", _TEXT, "", "Name of this client in the brokers' logs, metrics and quotas."),
        Setting("client.rack", _TEXT, "",
                "Rack of this client; a consumer gets partitions with a replica there first, and may read from it."),
        Setting("metadata.max.age.ms", _LONG, 300_000, "Age at which metadata is refreshed.", minimum=0),
        Setting("request.timeout.ms", _INT, 30_000, "Request timeout.", minimum=0),
        Setting("retry.backoff.ms", _LONG, 100, "First wait before a failed request is sent again.", minimum=0),
        Setting("retry.backoff.max.ms", _LONG, 1000, "Longest wait before a request is repeated.", minimum=0),
        Setting("reconnect.backoff.ms", _LONG, 50, "First wait before connecting again.", minimum=0),
        Setting("reconnect.backoff.max.ms", _LONG, 1000, "Longest wait before connecting again.", minimum=0),
        Setting("connections.max.idle.ms", _LONG, 540_000, "Connections idle for longer are closed; -1 is never."),
        Setting("socket.connection.setup.timeout.ms", _LONG, 10_000, "Bound on one attempt to connect.", minimum=1),
        Setting("security.protocol", _TEXT, "PLAINTEXT", "Security protocol to brokers.", check=_protocol_fault),
        Setting("metric.reporters", _CLASS, None, "Objects with attach and detach, such as PrometheusReporter()."),
        Setting("metrics.num.samples", _INT, 2, "Samples of the window of rates and averages.", minimum=1),
        Setting("metrics.sample.window.ms", _LONG, 30_000, "Length of a sample.", minimum=1),
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
    Setting("acks", _TEXT, "all", "Acknowledgements that the leader must have received before a request is complete.",
            choices=("all", "-1", "0", "1")),
    Setting("enable.idempotence", _BOOL, True, "True writes each record exactly once, in order."),
    Setting("batch.size", _INT, 262_144, "Bytes that a batch may collect; 0 sends each record alone.", minimum=0),
    Setting("linger.ms", _LONG, 0, "Delay of a batch that is not full, for more records.", minimum=0),
    Setting("buffer.memory", _LONG, 33_554_432, "Bytes of records that may wait to be sent.", minimum=0),
    Setting("max.block.ms", _LONG, 60_000, "Maximum time that send blocks for metadata or memory.", minimum=0),
    Setting("max.request.size", _INT, 1_048_576, "Largest record, and largest request, in bytes.", minimum=0),
    Setting("max.in.flight.requests.per.connection", _INT, 5, "Unanswered requests of a connection.", minimum=1),
    Setting("retries", _INT, _INT_MAX, "Maximum number of retries of a batch.", minimum=0, maximum=_INT_MAX),
    Setting("delivery.timeout.ms", _INT, 120_000, "Bound on the time from append to success or failure.", minimum=0),
    Setting("compression.type", _TEXT, "none", "Codec of the batches.",
            choices=("none", "gzip", "snappy", "lz4", "zstd")),
    Setting("compression.gzip.level", _INT, -1, "Level of gzip; -1 is the codec's own.", minimum=-1, maximum=9),
    Setting("compression.lz4.level", _INT, 9, "Level of lz4.", minimum=1, maximum=17),
    Setting("compression.zstd.level", _INT, 3, "Level of zstd.", minimum=-131_072, maximum=22),
    Setting("key.serializer", _CLASS, None, "Callable of a key, or of a key and context, that returns bytes."),
    Setting("value.serializer", _CLASS, None, "Callable of a value, or of a value and context, that returns bytes."),
    Setting("partitioner.class", _CLASS, None, "None (murmur2 of the key, else sticky), `roundrobin`, or a callable."),
    Setting("partitioner.ignore.keys", _BOOL, False, "Choose partitions as if there were no keys."),
    Setting("interceptor.classes", _CLASS, None, "Objects with on_send and on_acknowledgement."),
    Setting("transactional.id", _TEXT, None, "Name of a transactional producer: one at a time has it.",
            check=_not_empty),
    Setting("transaction.timeout.ms", _INT, 60_000, "After which the broker aborts a transaction by itself.",
            minimum=0),
    Setting("transaction.two.phase.commit.enable", _BOOL, False,
            "True disables transaction timeouts (KIP-939); brokers must allow it."),
    *_ineffective("metadata.max.idle.ms", "partitioner.adaptive.partitioning.enable",
                  "partitioner.availability.timeout.ms"),
])  # fmt: skip

CONSUMER = Catalogue([
    *_common(),
    Setting("group.id", _TEXT, None, "The group that this consumer belongs to."),
    Setting("group.instance.id", _TEXT, None, "Name of a static member (KIP-345)."),
    Setting("group.protocol", _TEXT, "classic", "The protocol of the group.", check=_classic_protocol),
    Setting("session.timeout.ms", _INT, 45_000, "Time without a heartbeat until a member is removed.", minimum=1),
    Setting("heartbeat.interval.ms", _INT, 3_000, "Time between heartbeats.", minimum=1),
    Setting("max.poll.interval.ms", _INT, 300_000, "Without a poll for this long the member leaves.", minimum=1),
    Setting("max.poll.records", _INT, 500, "Records that one poll returns at most.", minimum=1),
    Setting("partition.assignment.strategy", _CLASS, None, "Assignors in order of preference."),
    Setting("enable.auto.commit", _BOOL, True, "Commit positions in the background."),
    Setting("auto.commit.interval.ms", _INT, 5_000, "Time between automatic commits.", minimum=0),
    Setting("auto.offset.reset", _TEXT, "latest", "Position without a committed offset.",
            choices=("latest", "earliest", "none")),
    Setting("fetch.min.bytes", _INT, 1, "Bytes for which a broker waits before it answers.", minimum=0),
    Setting("fetch.max.bytes", _INT, 52_428_800, "Maximum bytes of a Fetch response.", minimum=0),
    Setting("fetch.max.wait.ms", _INT, 500, "Maximum time that a broker waits for fetch.min.bytes.", minimum=0),
    Setting("max.partition.fetch.bytes", _INT, 1_048_576, "Maximum bytes of a partition in a response.", minimum=0),
    Setting("isolation.level", _TEXT, "read_uncommitted", "Visibility of open and aborted transactions.",
            choices=("read_uncommitted", "read_committed")),
    Setting("check.crcs", _BOOL, True, "Check the checksum of every batch."),
    Setting("allow.auto.create.topics", _BOOL, True, "True allows automatic creation of subscribed topics."),
    Setting("exclude.internal.topics", _BOOL, True, "True excludes internal topics from patterns."),
    Setting("default.api.timeout.ms", _INT, 60_000, "Bound on calls that have no timeout of their own.", minimum=0),
    Setting("key.deserializer", _CLASS, None, "Callable of bytes, or of bytes and context, that returns a key."),
    Setting("value.deserializer", _CLASS, None, "Callable of bytes, or of bytes and context, that returns a value."),
    Setting("interceptor.classes", _CLASS, None, "Objects with on_consume and on_commit."),
    *_ineffective("group.remote.assignor"),
])  # fmt: skip

ADMIN = Catalogue([
    *_common(),
    Setting("default.api.timeout.ms", _INT, 60_000, "Bound on calls that have no timeout of their own.", minimum=0),
    Setting("retries", _INT, _INT_MAX, "Maximum number of retries of a request.", minimum=0, maximum=_INT_MAX),
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
