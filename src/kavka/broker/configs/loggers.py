"""Levels of the broker's loggers as a configuration: of this process, until it ends (KIP-412).

`root` is the logger that all others of kavka descend from. TRACE has no counterpart in Python and lies below DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from kavka.broker.configs.effective_configs import ConfigEntry, Source
from kavka.broker.configs.overrides import ConfigRefused, Operation
from kavka.errors import ErrorCode
from kavka.settings.declaration import Setting, ValueType

log = logging.getLogger(__name__)

ROOT: Final = "root"
_KAVKA: Final = "kavka"
_LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def describe_loggers() -> list[ConfigEntry]:
    """Return a row for each logger, with the level that it goes by."""
    return [
        ConfigEntry(
            Setting(name, ValueType.STRING, None, "", reported_type=ValueType.UNKNOWN),
            _name_of(logger.getEffectiveLevel()),
            Source.DYNAMIC_BROKER_LOGGER,
            False,
            [],
        )
        for name, logger in sorted(_loggers().items())
    ]


def alter_loggers(
    changes: Iterable[tuple[str, Operation, str | None]], *, validate_only: bool
) -> None:
    """Set levels, and take them away from loggers that are then to go by their parents'. Raise ConfigRefused.

    Of several changes none is made when one is refused.
    """
    loggers, wanted = _loggers(), list(changes)
    for name, operation, level in wanted:
        _check(loggers, name, operation, level)
    if validate_only:
        return
    for name, operation, level in wanted:
        kept = level if operation is Operation.SET else None
        loggers[name].setLevel(logging.NOTSET if kept is None else _LEVELS[kept])
        log.warning("log level changed logger=%s level=%s", name, kept)


def _check(
    loggers: dict[str, logging.Logger], name: str, operation: Operation, level: str | None
) -> None:
    if operation not in (Operation.SET, Operation.DELETE):
        reason = f"{operation.name} operation is not allowed for the BROKER_LOGGER resource"
        raise ConfigRefused(ErrorCode.INVALID_REQUEST, reason)
    if name not in loggers:
        raise ConfigRefused(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation is Operation.DELETE and name == ROOT:
        reason = f"Removing the log level of the {ROOT} logger is not allowed"
        raise ConfigRefused(ErrorCode.INVALID_REQUEST, reason)
    if operation is Operation.SET and level not in _LEVELS:
        reason = f"{level} is no log level for {name}; those are {', '.join(sorted(_LEVELS))}"
        raise ConfigRefused(ErrorCode.INVALID_CONFIG, reason)


def _loggers() -> dict[str, logging.Logger]:
    made = logging.Logger.manager.loggerDict
    found = {
        name: logger
        for name, logger in list(made.items())
        if isinstance(logger, logging.Logger) and name.startswith(f"{_KAVKA}.")
    }
    return {ROOT: logging.getLogger(_KAVKA), **found}


def _name_of(level: int) -> str:
    return next((name for name, at_most in _LEVELS.items() if level <= at_most), "FATAL")
