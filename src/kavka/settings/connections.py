"""Broker settings of connections: how many, and how much their requests may take."""

from __future__ import annotations

from kavka.settings.declaration import Scope, Setting, Value, ValueType

_T = ValueType
_ANYWHERE = Scope.CLUSTER_WIDE


def parse_overrides_per_ip(text: str) -> dict[str, int]:
    """Return the number of each address of `address:number,...`. Raise ValueError, which says what is wrong."""
    from ipaddress import ip_address  # only where the setting is used

    overrides: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        address, colon, number = item.rpartition(":")
        if not colon or not number.strip().isdecimal():
            raise ValueError(f"Expected address:number, found {item}")
        overrides[str(ip_address(address.strip().strip("[]")))] = int(number)
    return overrides


def _overrides_fault(value: Value) -> str | None:
    try:
        parse_overrides_per_ip(str(value or ""))
    except ValueError as error:
        return str(error)
    return None


QUOTA_SETTINGS: list[Setting] = [
    Setting(
        "quota.window.num",
        _T.INT,
        11,
        "Number of samples over which the rates of client quotas and of new connections are measured.",
        minimum=1,
    ),
    Setting(
        "quota.window.size.seconds",
        _T.INT,
        1,
        "Length in seconds of a sample of quota.window.num. It also bounds the throttle time of the request quota.",
        minimum=1,
    ),
    Setting(
        "controller.quota.window.num",
        _T.INT,
        11,
        "Number of samples of the quota on changes of topics (controller_mutation_rate): what it allows in all of "
        "them together may be used at once.",
        minimum=1,
    ),
    Setting(
        "controller.quota.window.size.seconds",
        _T.INT,
        1,
        "Length in seconds of a sample of controller.quota.window.num.",
        minimum=1,
    ),
]

CONNECTION_SETTINGS: list[Setting] = [
    Setting(
        "max.connections",
        _T.INT,
        2_147_483_647,
        "Maximum number of connections of the broker; of one listener, listener.name.<name>.max.connections. At the "
        "limit new connections wait. Those of a listener that only brokers use do not: the connection of another "
        "listener that was used least recently is closed for them.",
        minimum=0,
        scope=_ANYWHERE,
    ),
    Setting(
        "max.connections.per.ip",
        _T.INT,
        2_147_483_647,
        "Maximum number of connections from one address; further ones are closed.",
        minimum=0,
        scope=_ANYWHERE,
    ),
    Setting(
        "max.connections.per.ip.overrides",
        _T.STRING,
        "",
        "Maximum number of connections of single addresses: 10.0.0.7:500,10.0.0.8:50. Host names, which Kafka "
        "takes, are refused.",
        check=_overrides_fault,
        scope=_ANYWHERE,
    ),
    Setting(
        "max.connection.creation.rate",
        _T.INT,
        2_147_483_647,
        "Maximum rate of new connections per second; of one listener, "
        "listener.name.<name>.max.connection.creation.rate. Others wait to be accepted. The rate of one address is "
        "the quota connection_creation_rate.",
        minimum=0,
        scope=_ANYWHERE,
    ),
    Setting(
        "queued.max.requests",
        _T.INT,
        500,
        "Number of connections with requests that wait to be handled, or for the disk, at which no other connection "
        "is read.",
        minimum=1,
    ),
    Setting(
        "queued.max.request.bytes",
        _T.LONG,
        -1,
        "Bytes of received and unanswered requests at which no further requests are read; -1: "
        "kavka.queued.max.request.bytes alone is the bound.",
    ),
    Setting(
        "kavka.queued.max.request.bytes",
        _T.LONG,
        None,
        "Memory in bytes that received requests share; reading of further ones stops below it, at half of it or "
        "later. Unset: 1/16 of the machine's memory (or control group's), at least 64 MiB, at most 1 GiB.",
        minimum=1 << 20,
    ),
    Setting(
        "kavka.queued.request.stall.ms",
        _T.INT,
        10_000,
        "Time in milliseconds without progress after which a half-received request closes its connection, while "
        "requests use all memory that they may.",
        minimum=1,
    ),
    Setting(
        "kavka.group.members.max.bytes",
        _T.LONG,
        268_435_456,
        "Maximum memory in bytes of the members of all groups. A join or an assignment beyond it gets "
        "GROUP_MAX_SIZE_REACHED.",
        minimum=0,
    ),
    Setting(
        "kavka.max.incremental.fetch.session.cache.partitions",
        _T.INT,
        200_000,
        "Maximum number of partitions in all fetch sessions of consumers, and as many in those of followers; "
        "further fetches get no session.",
        minimum=0,
    ),
]
