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
        "Samples over which the rates of client quotas, and of new connections, are measured.",
        minimum=1,
    ),
    Setting(
        "quota.window.size.seconds",
        _T.INT,
        1,
        "Seconds of each such sample. It is also the longest throttle of the quota of request time.",
        minimum=1,
    ),
    Setting(
        "controller.quota.window.num",
        _T.INT,
        11,
        "Samples of the quota of changes of topics: what it allows in all of them may be used at once.",
        minimum=1,
    ),
    Setting(
        "controller.quota.window.size.seconds",
        _T.INT,
        1,
        "Seconds of each such sample.",
        minimum=1,
    ),
]

CONNECTION_SETTINGS: list[Setting] = [
    Setting(
        "max.connections",
        _T.INT,
        2_147_483_647,
        "Connections of the broker, and of one listener as listener.name.<name>.max.connections. While there are so "
        "many no further one is accepted, except by the listener between brokers where that is one of its own: then "
        "the connection that was used least recently is closed.",
        minimum=0,
        scope=_ANYWHERE,
    ),
    Setting(
        "max.connections.per.ip",
        _T.INT,
        2_147_483_647,
        "Connections from one address.",
        minimum=0,
        scope=_ANYWHERE,
    ),
    Setting(
        "max.connections.per.ip.overrides",
        _T.STRING,
        "",
        "Another number for some addresses: 10.0.0.7:500,10.0.0.8:50. Host names, which Kafka takes, are refused.",
        check=_overrides_fault,
        scope=_ANYWHERE,
    ),
    Setting(
        "max.connection.creation.rate",
        _T.INT,
        2_147_483_647,
        "Connections a second that are accepted, and by one listener as "
        "listener.name.<name>.max.connection.creation.rate; the others wait. For one address it is the quota "
        "connection_creation_rate.",
        minimum=0,
        scope=_ANYWHERE,
    ),
    Setting(
        "queued.max.requests",
        _T.INT,
        500,
        "When requests of so many connections wait to be handled, or for the disk, no other connection is read.",
        minimum=1,
    ),
    Setting(
        "queued.max.request.bytes",
        _T.LONG,
        -1,
        "Bytes of requests that came and are not answered at which no more are read; -1: kavka's own bound only.",
    ),
    Setting(
        "kavka.queued.max.request.bytes",
        _T.LONG,
        None,
        "Memory of received requests at which reading stops. Default: 1/16 of the machine's, 64 MiB to 1 GiB.",
        minimum=1 << 20,
    ),
    Setting(
        "kavka.queued.request.stall.ms",
        _T.INT,
        10_000,
        "While requests take all that they may, a half-received one that makes no progress for so long is closed.",
        minimum=1,
    ),
    Setting(
        "kavka.group.members.max.bytes",
        _T.LONG,
        268_435_456,
        "Maximum memory of the members of all groups. A join or an assignment beyond it gets GROUP_MAX_SIZE_REACHED.",
        minimum=0,
    ),
    Setting(
        "kavka.max.incremental.fetch.session.cache.partitions",
        _T.INT,
        200_000,
        "Maximum partitions in all fetch sessions of consumers, and of followers; further fetches get no session.",
        minimum=0,
    ),
]
