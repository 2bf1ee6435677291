"""Dynamic configuration: what topics and brokers override, over `server.properties`, over the defaults.

    topic:   /config/topics/<t>  >  broker's value of the synonym
    broker:  /config/brokers/<id>  >  /config/brokers/<default>  >  server.properties  >  default

Source: KIP-226 (dynamic broker configuration), KIP-339 (incremental changes).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from itertools import dropwhile
from typing import TYPE_CHECKING, NamedTuple

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.configs.endpoints import SETTINGS as ENDPOINT_SETTINGS
from kavka.ids import NO_TOPIC_ID, TopicId
from kavka.registry.interface import decode_or_none
from kavka.settings.broker import BROKER_SETTINGS, resolve_defaults, same_meaning
from kavka.settings.declaration import (
    Catalogue,
    InvalidSetting,
    Scope,
    Setting,
    Value,
    ValueType,
    whole_number,
)
from kavka.settings.dynamic import (
    base_name,
    declaration_of,
    is_in_force,
    waits_for_a_start,
    without_undecoded,
)
from kavka.settings.topic import TOPIC_SETTINGS, topic_defaults
from kavka.wire.stored import znodes

if TYPE_CHECKING:
    from kavka.broker.configs.listener_settings import ListenerSettings

log = logging.getLogger(__name__)

_DEFAULTS = {
    setting.name: text
    for setting in BROKER_SETTINGS
    if (text := setting.print(setting.default)) is not None
}


class Source(IntEnum):
    """The source of a value, as DescribeConfigs numbers it."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


class Synonym(NamedTuple):
    """A possible source of a value, strongest first."""

    name: str
    value: str | None
    source: Source


class ConfigEntry(NamedTuple):
    """A row of DescribeConfigs."""

    setting: Setting
    value: str | None
    source: Source
    read_only: bool
    synonyms: list[Synonym]


class EffectiveConfigs:
    """The overrides in force. Code that stores a change calls `put_topic` or `put_broker` afterwards."""

    def __init__(self, config: BrokerConfig) -> None:
        """Begin with the static configuration alone."""
        self._static = config
        self._topics: dict[str, dict[str, str]] = {}
        # Ids of the topics with known overrides: a topic that is created again has other ones.
        self._topic_ids: dict[str, TopicId] = {}
        self._broker: dict[str, str] = {}
        self._default_broker: dict[str, str] = {}
        self.open_listeners: list[str] = []
        """The names of the listeners that are open, or about to be; before the start none."""
        # So they are described.
        self._set_values = config.set_values
        self._broker_values = config.values
        self._topic_defaults = topic_defaults(config.values)
        self._topic_values: dict[str, dict[str, Value]] = {}
        self.on_broker_change: list[Callable[[], None]] = []
        """Called after the dynamic overrides of this broker, or of all, have been replaced."""
        self.broker_checks: list[Callable[[Mapping[str, str]], Awaitable[str | None]]] = []
        """Each returns why these dynamic overrides of this broker could not be applied, if so."""
        self.applications: set[asyncio.Future[None]] = set()
        """Tasks that apply changes, by reading files for example: each removes itself."""

    # -- reading

    def broker_values(self) -> Mapping[str, Value]:
        """Return every broker setting now in force; the mapping is replaced, never changed."""
        return self._broker_values

    def broker_integer(self, name: str) -> int:
        """Return a whole number now in force."""
        return whole_number(self._broker_values, name)

    @property
    def has_overrides(self) -> bool:
        """Return whether any setting of this broker, or of all, is stored."""
        return bool(self._broker or self._default_broker)

    @property
    def stores_listeners(self) -> bool:
        """Return whether listeners are among the dynamic settings of this broker."""
        return any(name in self._broker for name in ENDPOINT_SETTINGS)

    def listener(self, listener: str) -> ListenerSettings:
        """Return the settings now in force for one listener."""
        return self.merged_listener(listener, self._broker)

    def merged_listener(self, listener: str, overrides: Mapping[str, str]) -> ListenerSettings:
        """Return what `listener` would with other dynamic overrides of this broker."""
        from kavka.broker.configs.listener_settings import ListenerSettings  # not for a start

        values = self._merged_broker(self._default_broker, overrides)
        return ListenerSettings(listener, values, self._listener_texts(overrides))

    def _listener_texts(self, overrides: Mapping[str, str]) -> dict[str, str]:
        return {
            **self._static.listener_texts,
            **_in_force(self._default_broker, default=True),
            **_in_force(overrides, default=False),
        }

    def topic(self, topic: str) -> Mapping[str, Value]:
        """Return every topic setting now in force for `topic`; the mapping is replaced, never changed."""
        values = self._topic_values.get(topic)
        if values is None:
            values = self._topic_values[topic] = self.effective(self._topics.get(topic, {}), topic)
        return values

    def effective(self, stored: Mapping[str, str], topic: str) -> dict[str, Value]:
        """Return the topic settings that stored overrides give, without those that cannot be read."""
        return self.merged(_valid_overrides(TOPIC_SETTINGS, stored, f"topic {topic}"))

    def merged(self, overrides: Mapping[str, str]) -> dict[str, Value]:
        """Return the topic settings that `overrides` would give. Raise InvalidSetting."""
        values = dict(self._topic_defaults)
        for name, text in overrides.items():
            if name in TOPIC_SETTINGS:
                values[name] = TOPIC_SETTINGS[name].parse(text)
        return values

    def merged_broker(self, overrides: Mapping[str, str], *, default: bool) -> dict[str, Value]:
        """Return the broker settings that other dynamic overrides of this broker, or of all, would give."""
        if default:
            return self._merged_broker(overrides, self._broker)
        return self._merged_broker(self._default_broker, overrides)

    def _merged_broker(
        self, everywhere: Mapping[str, str], here: Mapping[str, str]
    ) -> dict[str, Value]:
        return BROKER_SETTINGS.parse(
            {
                **self._static.texts,
                **_valid_overrides(
                    BROKER_SETTINGS, _in_force(everywhere, default=True), "all brokers"
                ),
                **_valid_overrides(BROKER_SETTINGS, _in_force(here, default=False), "this broker"),
            }
        )

    def effective_broker(self, overrides: Mapping[str, str]) -> dict[str, Value]:
        """Return what `broker_values` would with other dynamic overrides of this broker."""
        values = self.merged_broker(overrides, default=False)
        resolve_defaults(values)
        return values

    def knows(self, topic: str) -> bool:
        """Return whether the topic's overrides are known, be they empty."""
        return topic in self._topics

    def known_topics(self) -> list[str]:
        """Return the names of the topics whose overrides are known."""
        return list(self._topics)

    def topic_id(self, topic: str) -> TopicId:
        """Return the id of the topic with known overrides of that name; NO_TOPIC_ID without one."""
        return self._topic_ids.get(topic, NO_TOPIC_ID)

    def topic_overrides(self, topic: str) -> dict[str, str]:
        """Return what the topic overrides."""
        return dict(self._topics.get(topic, {}))

    def broker_overrides(self, *, default: bool) -> dict[str, str]:
        """Return the dynamic overrides of this broker, or of all brokers."""
        return dict(self._default_broker if default else self._broker)

    # -- changes

    def put_topic(
        self, topic: str, overrides: Mapping[str, str] | None, topic_id: TopicId | None = None
    ) -> None:
        """Replace a topic's overrides; None forgets the topic. It is the one that was known, unless an id is given."""
        self._topic_values.pop(topic, None)
        if overrides is None:
            self._topics.pop(topic, None)
            self._topic_ids.pop(topic, None)
            return
        self._topics[topic] = dict(overrides)
        if topic_id is not None:
            self._topic_ids[topic] = topic_id

    def put_broker(self, overrides: Mapping[str, str], *, default: bool) -> None:
        """Replace the dynamic overrides of this broker, or of all brokers."""
        self._warn_of_ineffective(self.broker_overrides(default=default), overrides, default)
        if default:
            self._default_broker = dict(overrides)
        else:
            self._broker = dict(overrides)
        self._set_values = self._merged_broker(self._default_broker, self._broker)
        values = dict(self._set_values)
        resolve_defaults(values)
        self._broker_values = values
        self._topic_defaults = topic_defaults(values)
        self._topic_values.clear()
        for callback in self.on_broker_change:
            callback()

    def _warn_of_ineffective(
        self, before: Mapping[str, str], after: Mapping[str, str], default: bool
    ) -> None:
        """Warn of new overrides that are kept and do nothing. Their values may be secrets."""
        for name in sorted(after):
            if after[name] == before.get(name):
                continue
            if not is_in_force(name, default=default):
                owner = "all brokers" if default else "this broker"
                log.warning("stored setting ignored owner=%s name=%s", owner, name)
            elif not declaration_of(name).effective or self._waits(name):
                log.warning("setting kept without effect while the broker runs name=%s", name)

    def _waits(self, name: str) -> bool:
        """Return whether a setting that changes now has its effect from the next start on."""
        listeners = self.open_listeners
        return bool(listeners) and (
            declaration_of(name).fixed or waits_for_a_start(name, listeners)
        )

    # -- describing

    def describe_topic(
        self, topic: str, stored: Mapping[str, str] | None = None
    ) -> list[ConfigEntry]:
        """Return a row for every topic setting, and for others: as `stored`, else as in effect on this broker."""
        if stored is None or stored == self._topics.get(topic):
            return self._topic_rows(self._topics.get(topic, {}), self.topic(topic))
        return self._topic_rows(stored, self.effective(stored, topic))

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
                synonyms += self._broker_synonyms(setting.synonym)
            text = setting.print(values[setting.name])
            source = synonyms[0].source if synonyms else Source.DEFAULT
            rows.append(ConfigEntry(setting, text, source, False, synonyms))
        source = Source.DYNAMIC_TOPIC
        for name, text in overrides.items():
            if name not in TOPIC_SETTINGS:
                undeclared = Setting(name, ValueType.UNKNOWN, None, "", effective=False)
                synonyms = [Synonym(name, text, source)]
                rows.append(ConfigEntry(undeclared, text, source, False, synonyms))
        return rows

    def describe_broker(self, *, default: bool) -> list[ConfigEntry]:
        """Return a row for every setting of this broker, or for the dynamic defaults of all brokers.

        Stored settings without declaration have one, too: Kafka's tool takes all dynamic rows and sends them back
        changed, which deletes settings that it did not get. At a secret it stops.
        """
        if default:
            source = Source.DYNAMIC_DEFAULT_BROKER
            return [
                ConfigEntry(
                    declaration_of(name),
                    text,
                    source,
                    name not in BROKER_SETTINGS,
                    [Synonym(name, text, source)],
                )
                for name, text in self._default_broker.items()
            ]
        rows = []
        for setting in BROKER_SETTINGS:
            synonyms = self._broker_synonyms(setting.name)
            text = setting.print(self._set_values[setting.name])
            source = synonyms[0].source if synonyms else Source.DEFAULT
            read_only = setting.scope is Scope.READ_ONLY
            rows.append(ConfigEntry(setting, text, source, read_only, synonyms))
        for name in {**self._default_broker, **self._broker}:
            if name not in BROKER_SETTINGS:
                synonyms = self._broker_synonyms(name)
                first = synonyms[0]
                rows.append(
                    ConfigEntry(declaration_of(name), first.value, first.source, True, synonyms)
                )
        return rows

    def _broker_synonyms(self, name: str) -> list[Synonym]:
        """Return what could give a value, from the first place on that gives it under its own name."""
        names = [name, base_name(name)] if base_name(name) != name else same_meaning(name)
        places = (
            (self._broker, Source.DYNAMIC_BROKER),
            (self._default_broker, Source.DYNAMIC_DEFAULT_BROKER),
            (self._static.texts, Source.STATIC_BROKER),
            (_DEFAULTS, Source.DEFAULT),
        )
        found = [
            Synonym(one, place[one], source)
            for place, source in places
            for one in names
            if one in place
        ]
        return list(dropwhile(lambda synonym: synonym.name != name, found))


def stored_overrides(data: bytes, path: str) -> dict[str, str]:
    """Return what the znode at `path` overrides; nothing when it cannot be read, as Kafka takes it."""
    return decode_or_none(data, znodes.decode_config, path) or {}


def _in_force(overrides: Mapping[str, str], *, default: bool) -> dict[str, str]:
    """Return what of stored overrides may have an effect: what may not be dynamic is ignored, as in Apache Kafka."""
    return {
        name: text
        for name, text in without_undecoded(overrides).items()
        if is_in_force(name, default=default)
    }


def _valid_overrides(
    settings: Catalogue, overrides: Mapping[str, str], owner: str
) -> dict[str, str]:
    """Return stored overrides without those that cannot be read.

    Another tool, or a broker of another release, wrote them. One must not stop work that does not need it,
    least of all elections.
    """
    sound = {}
    for name, text in overrides.items():
        try:
            if name in settings:
                settings[name].parse(text)
        except InvalidSetting as error:
            log.warning("stored setting ignored owner=%s reason=%s", owner, error)
        else:
            sound[name] = text
    return sound
