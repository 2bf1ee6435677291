"""Files of Apache Kafka in KRaft mode: what a `server.properties` of Kafka 4 says in the terms of kavka.

    node.id                                            is another name of broker.id
    process.roles=broker,controller, its only voter    one broker with a registry of its own; the controller's
                                                       listener is not opened
    any other process.roles                            is refused: kavka has no KRaft quorum

A quorum of any size may have one entry in controller.quorum.bootstrap.servers, the same in the file of each node. It
shows a node alone only where it is the controller's listener of this node. Decision 028.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kavka.settings.declaration import InvalidSetting

_ROLES = "process.roles"
_VOTERS = "controller.quorum.voters"
_BOOTSTRAP = "controller.quorum.bootstrap.servers"
_NAMES = "controller.listener.names"
_DONE = ("node.id", _ROLES, _VOTERS, _BOOTSTRAP, _NAMES)
_ADVICE = (
    "kavka has no KRaft quorum. For one broker alone, set process.roles=broker,controller and name this node as the "
    "only one in controller.quorum.voters or controller.quorum.bootstrap.servers. For a cluster, remove process.roles, "
    "controller.quorum.* and controller.listener.names, take the controller's listener out of listeners and "
    "advertised.listeners, and set zookeeper.connect (Apache ZooKeeper, or kavka zookeeper-server-start)"
)
_NOT_OWN = (
    "It is not the controller's listener of this node, so it may be another node's. If this node is alone, name it "
    "with the port of its controller's listener and localhost, this machine's name or the host of the listener"
)
_LOCAL = ("localhost", "127.0.0.1", "::1")


def without_kraft(
    texts: Mapping[str, str], host_names: Callable[[], Collection[str]]
) -> dict[str, str]:
    """Return the settings with those of KRaft translated; `host_names` returns the names of this machine.

    Raise InvalidSetting, which says what to change.
    """
    settings = dict(texts)
    _take_node_id(settings)
    roles = set(_items(settings.get(_ROLES, "")))
    if not roles:
        return settings
    unknown = roles - {"broker", "controller"}
    if unknown:
        raise InvalidSetting(
            _ROLES, settings[_ROLES], "Roles are 'broker' and 'controller' or both"
        )
    if settings.get("zookeeper.connect"):
        raise InvalidSetting(
            _ROLES, settings[_ROLES], "zookeeper.connect is set too; remove one of them"
        )
    if roles != {"broker", "controller"}:
        raise InvalidSetting(_ROLES, settings[_ROLES], _ADVICE)
    names = {name.upper() for name in _items(settings.get(_NAMES, ""))}
    _check_quorum(settings, names, host_names)
    for setting in ("listeners", "advertised.listeners"):
        if setting in settings:
            settings[setting] = _without_listeners(settings[setting], names)
    for name in _DONE:
        settings.pop(name, None)
    return settings


def _check_quorum(
    settings: Mapping[str, str], names: set[str], host_names: Callable[[], Collection[str]]
) -> None:
    """Raise InvalidSetting unless this node is the only one of its quorum."""
    voters = _items(settings.get(_VOTERS, ""))
    servers = _items(settings.get(_BOOTSTRAP, ""))
    if len(voters) > 1 or (not voters and len(servers) > 1):
        raise InvalidSetting(_ROLES, settings[_ROLES], _ADVICE)
    if voters:
        if voters[0].partition("@")[0] != settings.get("broker.id", "-1").strip():
            raise InvalidSetting(_ROLES, settings[_ROLES], _ADVICE)
    elif servers and not _is_own(servers[0], settings, names, host_names):
        raise InvalidSetting(_BOOTSTRAP, servers[0], f"{_NOT_OWN}. {_ADVICE}")


def _is_own(
    server: str,
    settings: Mapping[str, str],
    names: set[str],
    host_names: Callable[[], Collection[str]],
) -> bool:
    """Return whether a server is the controller's listener of this node."""
    host, port = _host_and_port(server)
    listeners = [
        _host_and_port(item.partition("://")[2])
        for setting in ("listeners", "advertised.listeners")
        for item in _items(settings.get(setting, ""))
        if item.partition(":")[0].upper() in names
    ]
    hosts = {own for own, own_port in listeners if own_port == port}
    if not hosts:
        return False
    return host in hosts or host in _LOCAL or host in {name.lower() for name in host_names()}


def _host_and_port(address: str) -> tuple[str, str]:
    host, _colon, port = address.rpartition(":")
    return host.strip("[]").lower(), port


def _take_node_id(settings: dict[str, str]) -> None:
    node_id = settings.get("node.id")
    if node_id is None:
        return
    broker_id = settings.setdefault("broker.id", node_id)
    if broker_id.strip() != node_id.strip():
        reason = f"You must set node.id to the same value as broker.id, which is {broker_id}"
        raise InvalidSetting("node.id", node_id, reason)
    del settings["node.id"]


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _without_listeners(text: str, names: set[str]) -> str:
    return ",".join(item for item in _items(text) if item.partition(":")[0].upper() not in names)
