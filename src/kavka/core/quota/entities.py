"""The entities that have quotas, and which of them limits a client: the most specific of eight levels.

    users/<user>/clients/<client>           each level has one rate for every client, or every user, that it limits:
    users/<user>/clients/<default>            those with `client` in the key count the clients of a user apart,
    users/<user>                              those without count them together
    users/<default>/clients/<client>
    users/<default>/clients/<default>
    users/<default>
    clients/<client>
    clients/<default>

Source: KIP-55. Unlike in Apache Kafka, the defaults hold for a client with an empty id, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple


class Default(Enum):
    """The name of what holds for all that have no quota of their own."""

    DEFAULT = "<default>"


DEFAULT: Final = Default.DEFAULT

Name = str | Default | None
"""None: the entity has no such part."""


class QuotaEntity(NamedTuple):
    """A user, a client id, both, or an address."""

    user: Name = None
    client_id: Name = None
    ip: Name = None


class QuotaKey(NamedTuple):
    """Those that share a rate; None stands for any."""

    user: str | None
    client_id: str | None


class Match(NamedTuple):
    """The limit of a client, and the clients that share it."""

    key: QuotaKey
    limit: float


class QuotaLimits:
    """The limits of one kind, such as producer_byte_rate."""

    def __init__(self, limits: Mapping[QuotaEntity, float]) -> None:
        """Take the limits of users and clients; those of addresses are no concern of it."""
        self._limits = dict(limits)

    def match(self, user: str, client_id: str) -> Match | None:
        """Return the limit of a client, None if it has none."""
        for entity, key in _levels(user, client_id):
            limit = self._limits.get(entity)
            if limit is not None:
                return Match(key, limit)
        return None


def _levels(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, QuotaKey]]:
    both = QuotaKey(user, client_id)
    for of_user in (user, DEFAULT):
        for of_client in (client_id, DEFAULT):
            yield QuotaEntity(of_user, of_client), both
        yield QuotaEntity(of_user), QuotaKey(user, None)
    for of_client in (client_id, DEFAULT):
        yield QuotaEntity(None, of_client), QuotaKey(None, client_id)
