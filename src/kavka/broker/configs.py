"""Dynamic configuration: what topics and brokers override, over `server.properties`, over the defaults.

    topic:   /config/topics/<t>  >  broker's value of the synonym
    broker:  /config/brokers/<id>  >  /config/brokers/<default>  >  server.properties  >  default

Source: KIP-226 (dynamic broker configuration), KIP-339 (incremental changes).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from kavka.broker.config import BrokerConfig
from kavka.errors import ErrorCode
from kavka.registry.understanding import understood
from kavka.settings.broker import BROKER_SETTINGS, resolve_defaults
from kavka.settings.declaration import Catalogue, InvalidSetting, Scope, Setting, Value, ValueType
from kavka.settings.topic import TOPIC_SETTINGS, topic_defaults
from kavka.wire.stored import znodes

log = logging.getLogger(__name__)


class Source(IntEnum):
    """Where a value comes from, as DescribeConfigs numbers it."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


class Operation(IntEnum):
    """What IncrementalAlterConfigs does to one name."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Synonym(NamedTuple):
    """One of the places that could give a value, strongest first."""

    name: str
    value: str | None
    source: Source


class ConfigEntry(NamedTuple):
    """One row of DescribeConfigs."""

    setting: Setting
    value: str | None
    source: Source
    read_only: bool
    synonyms: list[Synonym]


class ConfigRefused(Exception):
    """A change that is not accepted; `code` and the message go into the answer."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        """Keep the code beside the message."""
        super().__init__(message)
        self.code = code


class Configs:
    """The overrides in force. Whoever stores a change calls `put_topic` or `put_broker` afterwards."""

    def __init__(self, config: BrokerConfig) -> None:
        """Begin with the static configuration alone."""
        self._static = config
        self._topics: dict[str, dict[str, str]] = {}
        self._broker: dict[str, str] = {}
        self._default_broker: dict[str, str] = {}
        self._broker_values = config.values
        self._topic_defaults = topic_defaults(config.values)
        self._topic_values: dict[str, dict[str, Value]] = {}

    # -- reading

    def broker_values(self) -> Mapping[str, Value]:
        """Return every broker setting now in force; the mapping is replaced, never changed."""
        return self._broker_values

    def broker_integer(self, name: str) -> int:
        """Return a whole number now in force."""
        value = self._broker_values[name]
        assert isinstance(value, int), name
        return value

    def topic(self, topic: str) -> Mapping[str, Value]:
        """Return every topic setting now in force for `topic`; the mapping is replaced, never changed."""
        values = self._topic_values.get(topic)
        if values is None:
            overrides = _sound(TOPIC_SETTINGS, self._topics.get(topic, {}), f"topic {topic}")
            values = self._topic_values[topic] = self.merged(overrides)
        return values

    def merged(self, overrides: Mapping[str, str]) -> dict[str, Value]:
        """Return the topic settings that `overrides` would give. Raise InvalidSetting."""
        values = dict(self._topic_defaults)
        for name, text in overrides.items():
            if name in TOPIC_SETTINGS:
                values[name] = TOPIC_SETTINGS[name].parse(text)
        return values

    def knows(self, topic: str) -> bool:
        """Tell whether anybody has said what the topic overrides, be it nothing."""
        return topic in self._topics

    def topic_overrides(self, topic: str) -> dict[str, str]:
        """Return what the topic overrides."""
        return dict(self._topics.get(topic, {}))

    def broker_overrides(self, *, default: bool) -> dict[str, str]:
        """Return the dynamic overrides of this broker, or of all brokers."""
        return dict(self._default_broker if default else self._broker)

    # -- remembering

    def put_topic(self, topic: str, overrides: Mapping[str, str] | None) -> None:
        """Replace a topic's overrides; None forgets the topic."""
        self._topic_values.pop(topic, None)
        if overrides is None:
            self._topics.pop(topic, None)
        else:
            self._topics[topic] = dict(overrides)

    def put_broker(self, overrides: Mapping[str, str], *, default: bool) -> None:
        """Replace the dynamic overrides of this broker, or of all brokers."""
        if default:
            self._default_broker = dict(overrides)
        else:
            self._broker = dict(overrides)
        everywhere = _sound(BROKER_SETTINGS, self._default_broker, "all brokers")
        here = _sound(BROKER_SETTINGS, self._broker, "this broker")
        texts = {**self._static.texts, **everywhere, **here}
        values = BROKER_SETTINGS.parse(texts)
        resolve_defaults(values)
        self._broker_values = values
        self._topic_defaults = topic_defaults(values)
        self._topic_values.clear()

    # -- describing

    def describe_topic(
        self, topic: str, stored: Mapping[str, str] | None = None
    ) -> list[ConfigEntry]:
        """Return a row for every topic setting: as it is `stored`, else as this broker obeys it."""
        if stored is None or stored == self._topics.get(topic):
            return self._topic_rows(self._topics.get(topic, {}), self.topic(topic))
        sound = _sound(TOPIC_SETTINGS, stored, f"topic {topic}")
        return self._topic_rows(stored, self.merged(sound))

    def describe_new_topic(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """Return the rows that a topic with these overrides would have. Raise InvalidSetting."""
        return self._topic_rows(overrides, self.merged(overrides))

    def _topic_rows(
        self, overrides: Mapping[str, str], values: Mapping[str, Value]
    ) -> list[ConfigEntry]:
        rows = []
        for setting in TOPIC_SETTINGS:
            synonyms: list[Synonym] = []
            if setting.name in overrides:
                synonyms.append(
                    Synonym(setting.name, overrides[setting.name], Source.DYNAMIC_TOPIC)
                )
            if setting.synonym is not None:
                synonyms += self._broker_synonyms(BROKER_SETTINGS[setting.synonym])
            text = setting.print(values[setting.name])
            source = synonyms[0].source if synonyms else Source.DEFAULT
            rows.append(ConfigEntry(setting, text, source, False, synonyms))
        return rows

    def describe_broker(self, *, default: bool) -> list[ConfigEntry]:
        """Return a row for every setting of this broker, or for the dynamic defaults of all brokers."""
        if default:
            return [
                ConfigEntry(
                    BROKER_SETTINGS[name],
                    text,
                    Source.DYNAMIC_DEFAULT_BROKER,
                    False,
                    [Synonym(name, text, Source.DYNAMIC_DEFAULT_BROKER)],
                )
                for name, text in self._default_broker.items()
                if name in BROKER_SETTINGS
            ]
        rows = []
        for setting in BROKER_SETTINGS:
            synonyms = self._broker_synonyms(setting)
            text = setting.print(self._broker_values[setting.name])
            source = synonyms[0].source if synonyms else Source.DEFAULT
            read_only = setting.scope is Scope.READ_ONLY
            rows.append(ConfigEntry(setting, text, source, read_only, synonyms))
        return rows

    def _broker_synonyms(self, setting: Setting) -> list[Synonym]:
        places = (
            (self._broker, Source.DYNAMIC_BROKER),
            (self._default_broker, Source.DYNAMIC_DEFAULT_BROKER),
            (self._static.texts, Source.STATIC_BROKER),
        )
        found = [
            Synonym(setting.name, place[setting.name], source)
            for place, source in places
            if setting.name in place
        ]
        if setting.default is not None:
            found.append(Synonym(setting.name, setting.print(setting.default), Source.DEFAULT))
        return found


def stored_overrides(data: bytes, path: str) -> dict[str, str]:
    """Return what the znode at `path` overrides; nothing when it cannot be read, as Kafka takes it."""
    return understood(data, znodes.decode_config, path) or {}


def _sound(settings: Catalogue, overrides: Mapping[str, str], whose: str) -> dict[str, str]:
    """Return stored overrides without those that cannot be read.

    Somebody else wrote them: another tool, or a broker of another release. One must not stop what works without it,
    least of all elections.
    """
    sound = {}
    for name, text in overrides.items():
        try:
            if name in settings:
                settings[name].parse(text)
        except InvalidSetting as error:
            log.warning("stored setting ignored whose=%s reason=%s", whose, error)
        else:
            sound[name] = text
    return sound


def check_topic_overrides(overrides: Mapping[str, str | None]) -> dict[str, str]:
    """Return overrides that a topic may have. Raise ConfigRefused(INVALID_CONFIG) with the reason."""
    accepted: dict[str, str] = {}
    for name, text in overrides.items():
        if name not in TOPIC_SETTINGS:
            raise ConfigRefused(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        if text is None:
            raise ConfigRefused(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}"
            )
        try:
            TOPIC_SETTINGS[name].parse(text)
        except InvalidSetting as error:
            raise ConfigRefused(ErrorCode.INVALID_CONFIG, str(error)) from error
        accepted[name] = text
    return accepted


def check_broker_overrides(overrides: Mapping[str, str | None], *, default: bool) -> dict[str, str]:
    """Return overrides that brokers may have while they run. Raise ConfigRefused with the reason."""
    accepted: dict[str, str] = {}
    for name, text in overrides.items():
        if name not in BROKER_SETTINGS or BROKER_SETTINGS[name].scope is Scope.READ_ONLY:
            reason = f"Cannot update these configs dynamically: Set({name})"
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, reason)
        if default and BROKER_SETTINGS[name].scope is Scope.PER_BROKER:
            reason = f"Cannot update these configs at default cluster level: Set({name})"
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, reason)
        try:
            BROKER_SETTINGS[name].parse(text)
        except InvalidSetting as error:
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, str(error)) from error
        accepted[name] = text or ""
    return accepted


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
                if name not in catalogue or catalogue[name].type is not ValueType.LIST:
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
    given = [item.strip() for item in text.split(",") if item.strip()]
    if operation is Operation.APPEND:
        return ",".join(items + [item for item in given if item not in items])
    return ",".join(item for item in items if item not in given)
