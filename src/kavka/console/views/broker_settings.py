"""A change of a dynamic setting of one broker or of all, and what it would bring on each broker. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kavka.client.admin.configs import ConfigEntry
from kavka.console.sentences import NOTHING, Sentence, as_is, say
from kavka.console.views.settings import SettingView

OWN: Final = 2
"""The source of a value that one broker has by a dynamic setting; that of all brokers is 3."""
_OF_LISTENER: Final = "listener.name."
_SECRET: Final = re.compile(r"password|secret|jaas\.config|keystore\.key|credential", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PlannedValue:
    """The value of the setting on one broker, now and after the change; null where it is none, secret or unknown."""

    broker_id: int
    before: str | None
    source: str
    after: str | None
    is_changed: bool
    note: Sentence


@dataclass(frozen=True, slots=True)
class BrokerSettingChange:
    """A setting that can be changed while brokers run, and the plan of a change where a value is given."""

    broker: str
    """The id of the broker, `all` for what holds on each that has no value of its own."""
    names: list[str]
    """The settings that can be changed."""
    name: str
    setting: SettingView | None
    """As the broker has it; with `all`, as one of them has it."""
    is_sensitive: bool
    is_set: bool
    """There is a value at this level, which can be removed."""
    defaults: list[SettingView]
    """With `all`: the values that hold for all brokers."""
    is_planned: bool
    plan: list[PlannedValue]
    refused: Sentence
    """The reason why the broker does not take the value."""


def is_sensitive(name: str, entry: ConfigEntry | None) -> bool:
    """Return whether a setting's value is a secret.

    Brokers take settings that they do not know, for plug-ins, and hide their values. Those of one listener are not
    listed before they have a value, and are known by their names.
    """
    if entry is not None:
        return entry.is_sensitive
    is_known = name == "" or name.startswith(_OF_LISTENER)
    return _SECRET.search(name) is not None if is_known else True


def planned_values(
    entries: Mapping[int, ConfigEntry | Exception | None],
    views: Mapping[int, SettingView],
    value: str | None,
    *,
    of_all: bool,
) -> list[PlannedValue]:
    """Return what a change brings on each broker; no value removes that of this level."""
    rows = []
    for broker_id, entry in sorted(entries.items()):
        if isinstance(entry, Exception):
            rows.append(PlannedValue(broker_id, None, "", None, False, as_is(str(entry))))
            continue
        if entry is None:
            note = say("the broker does not list it")
            rows.append(PlannedValue(broker_id, None, "", value, True, note))
            continue
        keeps = of_all and entry.source == OWN
        after = entry.value if keeps else value if value is not None else _below(entry, of_all)
        hidden = entry.is_sensitive
        rows.append(
            PlannedValue(
                broker_id,
                None if hidden else entry.value,
                views[broker_id].source,
                None if hidden else after,
                not keeps and (hidden or after != entry.value),
                say("it keeps the value of its own") if keeps else NOTHING,
            )
        )
    return rows


def _below(entry: ConfigEntry, of_all: bool) -> str | None:
    """Return the value that holds without that of a level."""
    level = OWN + 1 if of_all else OWN
    return next((one.value for one in entry.synonyms if one.source > level), entry.value)


def changeable(entries: Sequence[ConfigEntry]) -> list[str]:
    """Return the names of the settings that can be changed."""
    return sorted(entry.name for entry in entries if not entry.is_read_only)
