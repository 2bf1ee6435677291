"""Settings of topics and brokers, with their source and documentation. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kavka.client.admin.configs import ConfigEntry
from kavka.console.views.paging import searched

_SOURCES: Final = {
    1: "topic",
    2: "broker, dynamic",
    3: "all brokers, dynamic",
    4: "broker's file",
    5: "default",
    6: "logger, dynamic",
    7: "client metrics",
    8: "group",
}
_TYPES: Final = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}


@dataclass(frozen=True, slots=True)
class SettingView:
    """A setting; `value` is null where it is none, or secret."""

    name: str
    value: str | None
    source: str
    is_default: bool
    is_sensitive: bool
    is_read_only: bool
    type: str
    documentation: str
    inherited: str
    """The value that would hold without the one that is set, and its source."""


def setting_views(
    entries: Iterable[ConfigEntry], search: str, *, changed: bool
) -> list[SettingView]:
    """Return settings whose names have all words of a search; with `changed` those that are not the default only."""
    has_words = searched(search)
    return [
        _setting(entry)
        for entry in sorted(entries, key=lambda entry: entry.name)
        if has_words(entry.name) and not (changed and entry.is_default)
    ]


def _setting(entry: ConfigEntry) -> SettingView:
    below = [synonym for synonym in entry.synonyms if synonym.source != entry.source]
    return SettingView(
        name=entry.name,
        value=None if entry.is_sensitive else entry.value,
        source=_SOURCES.get(entry.source, "unknown"),
        is_default=entry.is_default,
        is_sensitive=entry.is_sensitive,
        is_read_only=entry.is_read_only,
        type=_TYPES.get(entry.type, ""),
        documentation=(entry.documentation or "").strip(),
        inherited=f"{below[0].value} ({_SOURCES.get(below[0].source, 'unknown')})"
        if below and not entry.is_sensitive
        else "",
    )
