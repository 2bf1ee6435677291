"""The listeners of a broker and the addresses that it advertises, as `listeners` and `advertised.listeners` give them.

Source: KIP-103 (names of listeners), KIP-226 (listeners that are added and removed while a broker runs).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kavka.settings.declaration import InvalidSetting, Value
from kavka.values import frozen

SETTINGS: Final = ("listeners", "advertised.listeners", "listener.security.protocol.map")
_SERVED_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ENDPOINT: Final = re.compile(
    r"(?P<name>[A-Za-z0-9_]+)://(?P<host>\[[0-9A-Fa-f:%.]+\]|[^:\[\]]*):(?P<port>-?\d+)"
)


@frozen
class Endpoint:
    """An entry of `listeners`: a name, its address, and the security protocol of the name."""

    name: str
    host: str
    port: int
    protocol: str

    @property
    def is_encrypted(self) -> bool:
        """Return whether connections begin with a TLS handshake."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def has_sasl(self) -> bool:
        """Return whether clients authenticate by SASL."""
        return self.protocol.startswith("SASL_")

    def __str__(self) -> str:
        """Print as the setting is written."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@frozen
class Endpoints:
    """The listeners, and those of them that are advertised with their addresses there."""

    listeners: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]

    @property
    def names(self) -> list[str]:
        """The names of the listeners, in order."""
        return [endpoint.name for endpoint in self.listeners]

    def protocol(self, name: str) -> str | None:
        """Return the security protocol of a listener, None if there is none of this name."""
        return next((e.protocol for e in self.listeners if e.name == name), None)

    def without(self, name: str) -> Endpoints:
        """Return the others."""
        return Endpoints(
            tuple(e for e in self.listeners if e.name != name),
            tuple(e for e in self.advertised if e.name != name),
        )


def endpoints_of(values: Mapping[str, Value]) -> Endpoints:
    """Return the listeners that settings name. Raise InvalidSetting where they do not fit together."""
    protocols = _protocols(_items(values, "listener.security.protocol.map"))
    listeners = _parsed(values, "listeners", protocols)
    advertised = _parsed(values, "advertised.listeners", protocols)
    if not listeners:
        raise InvalidSetting("listeners", "", "At least one listener is needed")
    for endpoint in listeners:
        if endpoint.protocol not in _SERVED_PROTOCOLS:
            reason = (
                f"security protocol {endpoint.protocol} is not in this release; "
                f"use {' or '.join(_SERVED_PROTOCOLS)}"
            )
            value = f"{endpoint.name}:{endpoint.protocol}"
            raise InvalidSetting("listener.security.protocol.map", value, reason)
    known = {endpoint.name for endpoint in listeners}
    for endpoint in advertised:
        if endpoint.name not in known:
            reason = "advertised listener names must be among listeners"
            raise InvalidSetting("advertised.listeners", endpoint, reason)
        if endpoint.host == "0.0.0.0":
            reason = "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0"
            raise InvalidSetting("advertised.listeners", endpoint, reason)
    return Endpoints(tuple(listeners), tuple(advertised))


def change_fault(before: Endpoints, after: Endpoints, inter_broker: str) -> str | None:
    """Return why a broker that runs cannot go from these listeners to those; the reasons are Apache Kafka's."""
    for endpoint in after.listeners:
        if before.protocol(endpoint.name) not in (None, endpoint.protocol):
            return f"Security protocol cannot be updated for existing listener {endpoint.name}"
    if inter_broker not in {endpoint.name for endpoint in after.advertised}:
        return f"Advertised listener must be specified for inter-broker listener {inter_broker}"
    return None


def _items(values: Mapping[str, Value], name: str) -> list[str]:
    value = values[name]
    assert isinstance(value, list), name
    return value


def _protocols(items: list[str]) -> dict[str, str]:
    """Return the security protocol of each listener's name."""
    protocols: dict[str, str] = {}
    for item in items:
        name, colon, protocol = item.partition(":")
        if not colon:
            setting = "listener.security.protocol.map"
            raise InvalidSetting(setting, item, "Expected LISTENER:PROTOCOL")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def _parsed(
    values: Mapping[str, Value], setting: str, protocols: Mapping[str, str]
) -> list[Endpoint]:
    found: list[Endpoint] = []
    for item in _items(values, setting):
        match = _ENDPOINT.fullmatch(item)
        if match is None:
            raise InvalidSetting(setting, item, "Expected NAME://host:port")
        name, port = match["name"].upper(), int(match["port"])
        if name not in protocols:
            reason = f"No security protocol defined for listener {name}"
            raise InvalidSetting(setting, item, reason)
        if not 0 <= port <= 65535:
            raise InvalidSetting(setting, item, "Port must be from 0 to 65535")
        host = match["host"].strip("[]")
        found.append(Endpoint(name, host, port, protocols[name]))
    names = [endpoint.name for endpoint in found]
    if len(set(names)) != len(names):
        reason = "Each listener must have a different name"
        raise InvalidSetting(setting, _items(values, setting), reason)
    return found
