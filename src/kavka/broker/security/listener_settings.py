"""The settings of one listener, and of a SASL mechanism there.

    listener.name.<listener>.<mechanism>.<setting>    the listener's name and the mechanism's in lower case
    listener.name.<listener>.<setting>
    <mechanism>.<setting>
    <setting>

The first that is set counts. Source: KIP-103, KIP-85; Apache Kafka's `AbstractConfig.valuesWithPrefixOverride`.
"""

from __future__ import annotations

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.settings.broker import BROKER_SETTINGS
from kavka.settings.declaration import Value


class ListenerSettings:
    """The settings of one listener of a broker."""

    def __init__(self, config: BrokerConfig, listener: str) -> None:
        """Read for the listener of this name."""
        self._config = config
        self.listener = listener

    def name_of(self, setting: str, mechanism: str) -> str:
        """Return the name under which a setting of a mechanism is best set here."""
        return f"listener.name.{self.listener.lower()}.{mechanism.lower()}.{setting}"

    def value(self, setting: str, mechanism: str = "") -> Value:
        """Return the value of a setting here, else that for all listeners. Raise InvalidSetting."""
        text = self.text_of_mechanism(setting, mechanism) if mechanism else None
        if text is None:
            text = self._config.listener_texts.get(
                f"listener.name.{self.listener.lower()}.{setting}"
            )
        if text is None:
            return self._config.values[setting]
        return BROKER_SETTINGS[setting].parse(text)

    def text_of_mechanism(self, setting: str, mechanism: str) -> str | None:
        """Return what is set for a mechanism under its name, None if nothing is."""
        texts = self._config.listener_texts
        own = self.name_of(setting, mechanism)
        return texts.get(own, texts.get(f"{mechanism.lower()}.{setting}"))

    def integer(self, setting: str, mechanism: str = "") -> int:
        """Return a whole number."""
        value = self.value(setting, mechanism)
        assert isinstance(value, int), setting
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
