"""Configuration resources: which of them exist here, and changing one of them.

Both AlterConfigs (the whole set at once) and IncrementalAlterConfigs (name by name) end in `alter`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from kavka.broker.configs.overrides import (
    ConfigRefused,
    check_application,
    check_broker_overrides,
    check_topic_overrides,
)
from kavka.broker.requests.memory import check_count
from kavka.broker.requests.pace import Pace
from kavka.broker.requests.session import CLUSTER_NAME, AclOperation, AclResourceType
from kavka.errors import ErrorCode
from kavka.settings.dynamic import is_password

if TYPE_CHECKING:
    from kavka.broker.control.dynamic_configs import DynamicConfigs
    from kavka.broker.requests.context import RequestContext

Edit = Callable[[dict[str, str]], Mapping[str, str | None]]
"""Makes new overrides of the present ones, or raises ConfigRefused."""

DUPLICATE_RESOURCE = "Each resource must appear at most once."
_MAX_SETTINGS = 10_000
_INTEGER = re.compile(r"[+-]?[0-9]+")


class ResourceType(IntEnum):
    """The type of a configuration resource."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def check_access(context: RequestContext, operation: AclOperation, kind: int, name: str) -> None:
    """Raise ConfigRefused when the client may not do this with the settings of a resource."""
    if context.authorizer is None:
        return
    if kind == ResourceType.TOPIC:
        if not context.allows(operation, AclResourceType.TOPIC, name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            raise ConfigRefused(code, code.message)
    elif not context.allows(operation, AclResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        raise ConfigRefused(code, code.message)


def check_broker_resource(name: str, broker_id: int) -> None:
    """Raise ConfigRefused when a broker resource cannot be answered here; an empty name means all brokers."""
    if name == "":
        return
    try:
        number = int(name) if _INTEGER.fullmatch(name) else None
    except ValueError:  # Python converts 4,300 digits at most
        number = None
    if number is None:
        reason = f"Broker id must be an integer, but it is: {name}"
        raise ConfigRefused(ErrorCode.INVALID_REQUEST, reason)
    if number != broker_id:
        reason = f"Unexpected broker id, expected {broker_id} or empty string, but received {name}"
        raise ConfigRefused(ErrorCode.INVALID_REQUEST, reason)


def check_logger_resource(name: str, broker_id: int) -> None:
    """Raise ConfigRefused when the loggers are not of this broker: each has its own."""
    if name == "":
        raise ConfigRefused(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    check_broker_resource(name, broker_id)


async def duplicates(resources: Iterable[tuple[int, str]], pace: Pace) -> set[tuple[int, str]]:
    """Return the resources of a request, by type and name, that stand in it more than once: none of them is changed."""
    once: set[tuple[int, str]] = set()
    twice: set[tuple[int, str]] = set()
    for resource in resources:
        (twice if resource in once else once).add(resource)
        if pace.is_over():
            await pace.rest()
    return twice


def check_changes(changes: Iterable[tuple[str, str | None]]) -> None:
    """Raise ConfigRefused for names that stand twice, and for values that are missing."""
    given = list(changes)
    check_count("ALTER_CONFIGS", "settings of one resource", len(given), _MAX_SETTINGS)
    if len({name for name, _value in given}) < len(given):
        raise ConfigRefused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [name for name, value in given if value is None]
    if missing:
        reason = f"Null value not supported for : {', '.join(missing)}"
        raise ConfigRefused(ErrorCode.INVALID_REQUEST, reason)


def present_overrides(dynamic_configs: DynamicConfigs, kind: int, name: str) -> dict[str, str]:
    """Return what a resource overrides now. Raise ConfigRefused when there is no such resource."""
    context = dynamic_configs.context
    if kind == ResourceType.TOPIC:
        if name == "":
            reason = "Default topic resources are not allowed."
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, reason)
        if name not in context.metadata.topics:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise ConfigRefused(code, f"The topic '{name}' does not exist.")
        return context.effective_configs.topic_overrides(name)
    if kind == ResourceType.BROKER:
        check_broker_resource(name, context.broker_id)
        return context.effective_configs.broker_overrides(default=name == "")
    raise ConfigRefused(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")


async def alter(
    dynamic_configs: DynamicConfigs, kind: int, name: str, edit: Edit, *, validate_only: bool
) -> None:
    """Store and apply what `edit` makes of the overrides of a resource. Raise ConfigRefused.

    It is called with the newest overrides, so that of two changes at once neither is lost.
    """
    context = dynamic_configs.context

    def make() -> dict[str, str]:
        present = present_overrides(dynamic_configs, kind, name)
        after = edit(present)
        if kind == ResourceType.TOPIC:
            return check_topic_overrides(context.effective_configs, name, after, present)
        accepted = check_broker_overrides(
            context.effective_configs, after, present, default=name == ""
        )
        changes = [each for each, text in accepted.items() if text != present.get(each)]
        if any(map(is_password, changes)) and (fault := dynamic_configs.passwords.fault(changes)):
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, fault)
        return accepted

    if kind == ResourceType.BROKER and name:
        await check_application(context.effective_configs, make())
    if validate_only:
        make()
    elif kind == ResourceType.TOPIC:
        await dynamic_configs.configure_topic(name, make)
    else:
        await dynamic_configs.configure_broker(make, default=name == "")
