"""The settings of users, clients and addresses in the registry: quotas, and the credentials of users.

    /config/users/<user>                     {"version":1,"config":{"producer_byte_rate":"1024","SCRAM-SHA-256":"..."}}
    /config/users/<user>/clients/<client>    quotas
    /config/clients/<client>, /config/ips/<ip>

Each change is a notification in `/config/changes`, too, by which all brokers learn of it. Written and read as by Apache
Kafka 3.9, except that a change is made of what is stored at that moment: of two at once neither is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kavka.broker.configs.effective_configs import stored_overrides
from kavka.core.znodes import Create, Operation, SetData, ZnodeError
from kavka.registry.interface import Registry, RegistryRefused, ensure_path, require_no_node
from kavka.wire.stored import znodes

_RACES = (ZnodeError.BAD_VERSION, ZnodeError.NODE_EXISTS, ZnodeError.NO_NODE)


async def read_entity_config(registry: Registry, path: str) -> dict[str, str]:
    """Return what is stored at a path below `/config`, `users/alice` say. Raise ConnectionError if it is unknown."""
    node = f"/config/{path}"
    try:
        data, _stat = await registry.get(node)
    except RegistryRefused as refused:
        require_no_node(refused)
        return {}
    return stored_overrides(data, node)


async def edit_entity_config(
    registry: Registry, path: str, edit: Callable[[dict[str, str]], Mapping[str, str]]
) -> None:
    """Store what `edit` makes of the settings at a path, and notify all brokers; what `edit` raises ends it.

    `edit` is called again when another broker was faster. It must keep the keys that it does not know.
    """
    node = f"/config/{path}"
    change = Create(znodes.CONFIG_CHANGE, znodes.encode_config_change(path), sequence=True)
    while True:
        write: Operation
        try:
            data, stat = await registry.get(node)
        except RegistryRefused as refused:
            require_no_node(refused)
            write = Create(node, znodes.encode_config(edit({})))
            await ensure_path(registry, node.rsplit("/", 1)[0])
        else:
            config = edit(stored_overrides(data, node))
            write = SetData(node, znodes.encode_config(config), stat.version)
        try:
            await registry.multi([write, change])
        except RegistryRefused as refused:
            if refused.error not in _RACES:
                raise
        else:
            return
