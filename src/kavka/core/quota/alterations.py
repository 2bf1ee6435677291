"""The rules of setting, storing and finding quotas; rules and messages are Apache Kafka 3.9's.

Kafka with ZooKeeper stores a quota of 0 or less, which then limits nothing. Such a one is refused here, as by Kafka's
KRaft controller; one that is stored already is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Final, NamedTuple

from kavka.core.quota.entities import DEFAULT, Name, QuotaEntity

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_LONG, _INT, _DOUBLE = "LONG", "INT", "DOUBLE"
CLIENT_KEYS: Final = {
    PRODUCER_BYTE_RATE: _LONG,
    CONSUMER_BYTE_RATE: _LONG,
    REQUEST_PERCENTAGE: _DOUBLE,
    CONTROLLER_MUTATION_RATE: _DOUBLE,
}
"""The keys of users and clients, with the types of their values."""
IP_KEYS: Final = {CONNECTION_CREATION_RATE: _INT}
_MAX: Final = {_LONG: (1 << 63) - 1, _INT: (1 << 31) - 1}
_EPSILON: Final = 1e-6

USER, CLIENT_ID, IP = "user", "client-id", "ip"


class InvalidAlteration(Exception):
    """An alteration, or a filter, that is refused as INVALID_REQUEST with this message."""


class QuotaOp(NamedTuple):
    """A quota and its new value; None removes it."""

    key: str
    value: float | None


def entity_of(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Return the entity of parts, each a type and a name; the name None is the default. Raise InvalidAlteration."""
    named: dict[str, Name] = {}
    for kind, name in parts:
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidAlteration(f"Unhandled client quota entity type: {kind}")
        if kind in named:
            raise InvalidAlteration(f"Client quota entity type {kind} is given twice")
        if name == "":
            raise InvalidAlteration(f"Empty {kind} not supported")
        named[kind] = DEFAULT if name is None else name
    if not named:
        raise InvalidAlteration("Invalid empty client quota entity")
    if IP in named:
        if len(named) > 1:
            message = "Invalid quota entity combination, IP entity should not be used with user/client ID entity."
            raise InvalidAlteration(message)
        named[IP] = _checked_ip(named[IP])
    return QuotaEntity(named.get(USER), named.get(CLIENT_ID), named.get(IP))


def parts_of(entity: QuotaEntity) -> list[tuple[str, str | None]]:
    """Return the type and name of each part, as `entity_of` takes them."""
    named = ((USER, entity.user), (CLIENT_ID, entity.client_id), (IP, entity.ip))
    return [(kind, None if name is DEFAULT else str(name)) for kind, name in named if name]


def _checked_ip(name: Name) -> Name:
    from ipaddress import ip_address  # only where the quota of an address is set

    if isinstance(name, str):
        try:
            ip_address(name)
        except ValueError:
            message = f"{name} is not a valid IP. Host names, which Kafka resolves, are not taken."
            raise InvalidAlteration(message) from None
    return name


def keys_of(entity: QuotaEntity) -> Mapping[str, str]:
    """Return the keys that an entity may have, with the types of their values."""
    return CLIENT_KEYS if entity.ip is None else IP_KEYS


def altered(
    entity: QuotaEntity, config: Mapping[str, str], ops: Iterable[QuotaOp]
) -> dict[str, str]:
    """Return the stored settings of an entity after an alteration; other keys stay. Raise InvalidAlteration."""
    after = dict(config)
    for op in ops:
        if op.value is None:
            after.pop(op.key, None)
        else:
            after[op.key] = _text(entity, op.key, op.value)
    return after


def _text(entity: QuotaEntity, key: str, value: float) -> str:
    kind = keys_of(entity).get(key)
    if kind is None:
        raise InvalidAlteration(f"Invalid configuration key {key}")
    if value < 0 or (value == 0 and entity.ip is None):
        raise InvalidAlteration(f"Quota {key} must be greater than 0")
    if not isfinite(value):
        raise InvalidAlteration(f"Configuration {key} must be a {kind} value")
    if kind == _DOUBLE:
        return java_double(value)
    whole = min(int(value + _EPSILON), _MAX[kind])
    if abs(whole - value) > _EPSILON:
        raise InvalidAlteration(f"Configuration {key} must be a {kind} value")
    return str(whole)


def quotas_in(entity: QuotaEntity, config: Mapping[str, str]) -> dict[str, float]:
    """Return the quotas among stored settings, which may be credentials, too. Raise ValueError for no number."""
    keys = keys_of(entity)
    return {key: float(text) for key, text in config.items() if key in keys}


def limits_in(entity: QuotaEntity, quotas: Mapping[str, float]) -> dict[str, float]:
    """Return the quotas that limit something."""
    minimum = 0 if entity.ip is not None else 1e-9
    return {key: value for key, value in quotas.items() if minimum <= value and isfinite(value)}


class Component(NamedTuple):
    """A part of a filter: entities that have a part of this type."""

    type: str
    names: frozenset[Name] | None
    """The name, or the default; None stands for any."""


class QuotaFilter:
    """A filter of entities: those that have all components, and no other part if the filter is strict."""

    def __init__(self, components: Iterable[Component], *, is_strict: bool) -> None:
        """Take components of different types."""
        self._components = {component.type: component.names for component in components}
        self._is_strict = is_strict

    def matches(self, entity: QuotaEntity) -> bool:
        """Return whether it is looked for."""
        parts = {USER: entity.user, CLIENT_ID: entity.client_id, IP: entity.ip}
        return all(self._matches(kind, name) for kind, name in parts.items())

    def may_match(self, entity: QuotaEntity) -> bool:
        """Return whether it is looked for, or a client of this user may be."""
        if entity.user is None:
            return self.matches(entity)
        return self._matches(USER, entity.user)

    def _matches(self, kind: str, name: Name) -> bool:
        if kind not in self._components:
            return name is None or not self._is_strict
        names = self._components[kind]
        return name is not None if names is None else name in names


ALL: Final = QuotaFilter((), is_strict=False)
"""The filter of all entities."""


def java_double(value: float) -> str:
    """Return the shortest text of a number as Java prints it: 10.0, 1.5E7, 1.0E-4."""
    digits = repr(value)
    mantissa, mark, exponent = digits.partition("e")
    if not mark and 1e-3 <= abs(value) < 1e7:
        return mantissa if "." in mantissa else f"{mantissa}.0"
    return _scientific(mantissa, int(exponent or "0"))


def _scientific(mantissa: str, exponent: int) -> str:
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0") or "0"
    return f"{digits[0]}.{digits[1:] or '0'}E{exponent + point - 1}"
