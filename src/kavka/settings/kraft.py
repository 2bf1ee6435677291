"""Files of Apache Kafka in KRaft mode: what a `server.properties` of Kafka 4 says in the terms of kavka.

    node.id                                            is another name of broker.id
    process.roles=broker,controller, its only voter    one broker with a registry of its own; the controller's
                                                       listener is not opened
    any other process.roles                            is refused: kavka has no KRaft quorum

Decision 028.
"""

from __future__ import annotations

from collections.abc import Mapping

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


def without_kraft(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with those of KRaft translated. Raise InvalidSetting, which says what to change."""
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
    voters = _items(settings.get(_VOTERS, "")) or _items(settings.get(_BOOTSTRAP, ""))
    own = settings.get("broker.id", "-1")
    is_only_voter = len(voters) <= 1 and all(
        "@" not in voter or voter.partition("@")[0] == own for voter in voters
    )
    if roles != {"broker", "controller"} or not is_only_voter:
        raise InvalidSetting(_ROLES, settings[_ROLES], _ADVICE)
    names = {name.upper() for name in _items(settings.get(_NAMES, ""))}
    for setting in ("listeners", "advertised.listeners"):
        if setting in settings:
            settings[setting] = _without_listeners(settings[setting], names)
    for name in _DONE:
        settings.pop(name, None)
    return settings


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
