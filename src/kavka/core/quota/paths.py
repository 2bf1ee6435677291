"""The znodes of quotas, below `/config`.

    users/<user>    users/<user>/clients/<client>    clients/<client>    ips/<ip>

Names are sanitised (`kavka.wire.stored.znodes`); `<default>` stands for the default. A user's node holds the user's
SCRAM credentials, too.
"""

from __future__ import annotations

from kavka.core.quota.entities import DEFAULT, Name, QuotaEntity
from kavka.wire.stored.znodes import DEFAULT_ENTITY, entity_name, sanitized_name

KINDS = ("users", "clients", "ips")


def entity_path(entity: QuotaEntity) -> str:
    """Return the path of an entity, as notifications of changes name it."""
    if entity.ip is not None:
        return f"ips/{_node(entity.ip)}"
    if entity.user is None:
        return f"clients/{_node(entity.client_id)}"
    of_user = f"users/{_node(entity.user)}"
    return of_user if entity.client_id is None else f"{of_user}/clients/{_node(entity.client_id)}"


def entity_at(path: str) -> QuotaEntity | None:
    """Return the entity of a path; None when it is not that of quotas."""
    match path.split("/"):
        case ["users", user]:
            return QuotaEntity(_name(user))
        case ["users", user, "clients", client]:
            return QuotaEntity(_name(user), _name(client))
        case ["clients", client]:
            return QuotaEntity(None, _name(client))
        case ["ips", ip]:
            return QuotaEntity(ip=_name(ip))
    return None


def _node(name: Name) -> str:
    assert name is not None
    return DEFAULT_ENTITY if name is DEFAULT else sanitized_name(str(name))


def _name(node: str) -> Name:
    return DEFAULT if node == DEFAULT_ENTITY else entity_name(node)
