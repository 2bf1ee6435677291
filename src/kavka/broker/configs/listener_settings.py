"""The settings of one listener, and of a SASL mechanism there.

    listener.name.<listener>.<mechanism>.<setting>    the listener's name and the mechanism's in lower case
    <mechanism>.<setting>
    listener.name.<listener>.<setting>
    <setting>

The first that is set counts; without a mechanism the last two. Source: KIP-103, KIP-85; Apache Kafka's
`AbstractConfig.valuesWithPrefixOverride`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from kavka.settings.broker import BROKER_SETTINGS
from kavka.settings.declaration import InvalidSetting, Value

log = logging.getLogger(__name__)

JAAS = "sasl.jaas.config"


class ListenerSettings:
    """The settings of one listener of a broker, as they were when this was made (`EffectiveConfigs.listener`)."""

    def __init__(
        self, listener: str, values: Mapping[str, Value], texts: Mapping[str, str]
    ) -> None:
        """Take the values for all listeners, and the texts of listeners and mechanisms by whole names."""
        self.listener = listener
        self._values = values
        self._texts = texts

    def name_of(self, setting: str, mechanism: str = "") -> str:
        """Return the name of a setting for this listener only, and for one mechanism if one is given."""
        prefix = f"{mechanism.lower()}." if mechanism else ""
        return f"listener.name.{self.listener.lower()}.{prefix}{setting}"

    def value(self, setting: str, mechanism: str = "") -> Value:
        """Return the value of a setting here, else that for all listeners."""
        for name in self._names(setting, mechanism):
            text = self._texts.get(name)
            if text is None:
                continue
            try:
                return BROKER_SETTINGS[setting].parse(text)
            except InvalidSetting as error:
                # Those of the file were checked at the start: this one is stored, perhaps by another program.
                log.warning("stored setting ignored name=%s reason=%s", name, error.reason)
        return self._values[setting]

    def _names(self, setting: str, mechanism: str) -> Iterator[str]:
        if mechanism:
            yield self.name_of(setting, mechanism)
            yield f"{mechanism.lower()}.{setting}"
        yield self.name_of(setting)

    def general(self, setting: str) -> str | None:
        """Return a text that is set for all listeners and mechanisms."""
        value = self._values[setting]
        assert value is None or isinstance(value, str), setting
        return value

    def is_own(self, setting: str) -> bool:
        """Return whether a setting is set for this listener by its prefix."""
        return self.name_of(setting) in self._texts

    def text_of_mechanism(self, setting: str, mechanism: str) -> str | None:
        """Return what is set for a mechanism under its name, None if nothing is."""
        own = self._texts.get(self.name_of(setting, mechanism))
        return self._texts.get(f"{mechanism.lower()}.{setting}") if own is None else own

    def integer(self, setting: str, mechanism: str = "") -> int:
        """Return a whole number."""
        value = self.value(setting, mechanism)
        assert isinstance(value, int), setting
        return value

    def number(self, setting: str, mechanism: str = "") -> float:
        """Return a number that may have a fraction."""
        value = self.value(setting, mechanism)
        assert isinstance(value, float), setting
        return value

    def text(self, setting: str) -> str:
        """Return a text that has a value."""
        value = self.value(setting)
        assert isinstance(value, str), setting
        return value

    def optional(self, setting: str, mechanism: str = "") -> str | None:
        """Return a text or None."""
        value = self.value(setting, mechanism)
        assert value is None or isinstance(value, str), setting
        return value

    def items(self, setting: str, mechanism: str = "") -> list[str]:
        """Return a list; an empty one where nothing is set."""
        value = self.value(setting, mechanism)
        assert value is None or isinstance(value, list), setting
        return value or []
