"""Changes of what topics and brokers override: what comes of one, and whether it is accepted.

Only what a change adds or replaces is judged. What is stored may be another program's, or another release's, and must
not stand in the way of everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

from kavka.broker.configs.effective_configs import EffectiveConfigs
from kavka.errors import ErrorCode, error_message
from kavka.settings.broker import BROKER_SETTINGS
from kavka.settings.declaration import InvalidSetting, Value, ValueType
from kavka.settings.dynamic import change_fault
from kavka.settings.topic import TOPIC_SETTINGS

_OF_TIERED_STORAGE = (
    "remote.storage.enable",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
)
_LAGS = ("min.compaction.lag.ms", "max.compaction.lag.ms")
_BROKER_LAGS = ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")


class Operation(IntEnum):
    """The operation of IncrementalAlterConfigs on one name."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigRefused(Exception):
    """A change that is not accepted; `code` and the message go into the response."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        """Keep the code beside the message."""
        super().__init__(error_message(message))
        self.code = code


def check_new_topic_overrides(
    effective_configs: EffectiveConfigs, overrides: Mapping[str, str | None]
) -> dict[str, str]:
    """Return overrides that a topic may begin with. Raise ConfigRefused(INVALID_CONFIG) with the reason."""
    return check_topic_overrides(effective_configs, "", overrides, {})


def check_topic_overrides(
    effective_configs: EffectiveConfigs,
    topic: str,
    overrides: Mapping[str, str | None],
    present: Mapping[str, str],
) -> dict[str, str]:
    """Return overrides that a topic may have after `present`. Raise ConfigRefused(INVALID_CONFIG) with the reason."""
    accepted: dict[str, str] = {}
    for name, text in overrides.items():
        if text is None:
            reason = f"Null value not supported for topic configs: {name}"
            raise ConfigRefused(ErrorCode.INVALID_CONFIG, reason)
        if text != present.get(name) and (fault := _topic_fault(name, text)) is not None:
            raise ConfigRefused(ErrorCode.INVALID_CONFIG, fault)
        accepted[name] = text
    lags = effective_configs.effective(
        {name: accepted[name] for name in _LAGS if name in accepted}, topic
    )
    before = effective_configs.effective(
        {name: present[name] for name in _LAGS if name in present}, topic
    )
    fault = _lags_fault(_LAGS, lags, before)
    if fault is not None:
        raise ConfigRefused(ErrorCode.INVALID_CONFIG, fault)
    return accepted


def _topic_fault(name: str, text: str) -> str | None:
    if name not in TOPIC_SETTINGS:
        return f"Unknown topic config name: {name}"
    try:
        value = TOPIC_SETTINGS[name].parse_new(text)
    except InvalidSetting as error:
        return str(error)
    if name in _OF_TIERED_STORAGE and value is True:
        return f"This broker has no tiered storage, so {name} cannot be true"
    return None


def check_broker_overrides(
    effective_configs: EffectiveConfigs,
    overrides: Mapping[str, str | None],
    present: Mapping[str, str],
    *,
    default: bool,
) -> dict[str, str]:
    """Return overrides that brokers may have after `present` while they run. Raise ConfigRefused with the reason."""
    accepted = {name: text or "" for name, text in overrides.items()}
    for name, text in accepted.items():
        if text != present.get(name):
            fault = change_fault(name, text, default=default)
            if fault is not None:
                raise ConfigRefused(ErrorCode.INVALID_REQUEST, fault)
    after = effective_configs.merged_broker(accepted, default=default)
    fault = _lags_fault(_BROKER_LAGS, after, effective_configs.broker_values())
    if fault is not None:
        raise ConfigRefused(ErrorCode.INVALID_REQUEST, fault)
    return accepted


async def check_application(
    effective_configs: EffectiveConfigs, accepted: Mapping[str, str]
) -> None:
    """Raise ConfigRefused where overrides of this broker could not be applied: files that they name may be wrong."""
    for check in effective_configs.broker_checks:
        if (reason := await check(accepted)) is not None:
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, reason)


def _lags_fault(
    names: tuple[str, str], after: Mapping[str, Value], before: Mapping[str, Value]
) -> str | None:
    """Return why a record would have to be compacted before it may be, unless that was so before."""
    least, most = (after[name] for name in names)
    assert isinstance(least, int)
    assert isinstance(most, int)
    if least <= most or (least, most) == tuple(before.get(name) for name in names):
        return None
    return f"Conflicting settings: {names[0]} ({least}) is more than {names[1]} ({most})"


def changed(
    present: Mapping[str, str],
    changes: Iterable[tuple[str, Operation, str | None]],
    effective: Mapping[str, Value],
    *,
    topic: bool,
) -> dict[str, str | None]:
    """Return what `present` overrides become after incremental changes. Raise ConfigRefused with the reason."""
    catalogue = TOPIC_SETTINGS if topic else BROKER_SETTINGS
    after: dict[str, str | None] = dict(present)
    for name, operation, text in changes:
        match operation:
            case Operation.SET:
                after[name] = text
            case Operation.DELETE:
                after.pop(name, None)
            case Operation.APPEND | Operation.SUBTRACT:
                if name not in catalogue or catalogue[name].reported_type is not ValueType.LIST:
                    reason = f"Config value {operation.name.lower()} is not allowed for config key: {name}"
                    raise ConfigRefused(ErrorCode.INVALID_CONFIG, reason)
                after[name] = _edit_list(
                    after.get(name), effective.get(name), operation, text or ""
                )
    return after


def _edit_list(present: str | None, effective: Value, operation: Operation, text: str) -> str:
    if present is not None:
        items = [item for item in present.split(",") if item]
    else:
        items = list(effective) if isinstance(effective, list) else []
    given = dict.fromkeys(item.strip() for item in text.split(",") if item.strip())
    if operation is Operation.APPEND:
        present_items = set(items)
        return ",".join(items + [item for item in given if item not in present_items])
    return ",".join(item for item in items if item not in given)
