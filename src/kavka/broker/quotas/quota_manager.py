"""The quotas of a broker: followed in the registry, and enforced while there are any.

A broker without quotas has read three lists at its start and does nothing more: the policy of the dispatcher is none,
and the modules that enforce quotas are not imported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kavka.broker.context import BrokerContext
from kavka.broker.requests.policies import Quota

if TYPE_CHECKING:
    from kavka.broker.quotas.client_quotas import ClientQuotas
    from kavka.broker.requests.context import RequestContext
    from kavka.core.quota.entities import QuotaEntity
    from kavka.io import Clock

log = logging.getLogger(__name__)

_ROOTS = ("/config/users", "/config/clients", "/config/ips")


NEVER_STRICT: Final = 1 << 15
"""Higher than any version: the client does not know THROTTLING_QUOTA_EXCEEDED as an error of the API."""


class TopicChanges:
    """The quota of one request that creates, extends or deletes topics."""

    __slots__ = ("_clock", "_context", "_quota", "_quotas")

    def __init__(
        self,
        clock: Clock,
        context: RequestContext,
        quotas: ClientQuotas | None,
        strict_since: int,
    ) -> None:
        """Charge the client of a request, if it has such a quota."""
        self._clock = clock
        self._context = context
        self._quotas = quotas
        self._quota = None if quotas is None else quotas.mutation_quota(context, strict_since)

    def accept(self, partitions: int) -> bool:
        """Return whether so many partitions may be created or deleted, and count them then."""
        return self._quota is None or self._quota.accept(partitions, self._clock.tick_ms())

    def throttle(self) -> None:
        """Throttle the client by the response, for as long as its quota is exceeded."""
        if self._quota is None or self._quotas is None:
            return
        throttle_ms = self._quota.throttle_ms(self._clock.tick_ms())
        if throttle_ms > 0:
            self._context.throttle_ms = max(self._context.throttle_ms, throttle_ms)
            self._quotas.note_mutations_throttled(self._context, throttle_ms)


class QuotaManager:
    """The quotas that there are, and what enforces them."""

    def __init__(self, context: BrokerContext, enforce: Callable[[Quota | None], None]) -> None:
        """Enforce nothing before `load`; `enforce` is given what throttles requests, None for nothing."""
        self._context = context
        self._enforce = enforce
        self._quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.counted: ClientQuotas | None = None
        """The enforcing object, made with the first quota and kept with its counts when all are removed."""
        self.client_quotas: ClientQuotas | None = None
        """The quotas of users and clients; None while there are none."""
        self.ip_rates: dict[str | None, float] = {}
        """Connections a second from each address; None is the address of the default."""

    def topic_changes(self, context: RequestContext, *, strict_since: int) -> TopicChanges:
        """Return the quota of a request; before version `strict_since` changes are throttled and not refused."""
        return TopicChanges(self._context.clock, context, self.client_quotas, strict_since)

    async def load(self) -> None:
        """Read all quotas, before the first request is served, and in another session. Raise ConnectionError."""
        registry = self._context.registry
        if not self._quotas and not any([await registry.children(root) for root in _ROOTS]):
            return
        from kavka.broker.quotas.stored_quotas import read_quotas
        from kavka.core.quota.alterations import ALL

        self._quotas = await read_quotas(registry, ALL)
        self._apply()

    async def entity_changed(self, path: str) -> None:
        """Read the quotas of one entity again: `path` is below `/config`. Raise ConnectionError."""
        from kavka.broker.quotas.stored_quotas import read_entity_quotas
        from kavka.core.quota.paths import entity_at

        entity = entity_at(path)
        if entity is None:
            return
        quotas = await read_entity_quotas(self._context.registry, entity)
        if quotas == self._quotas.get(entity, {}):
            return  # another setting of a user: a credential
        if quotas:
            self._quotas[entity] = quotas
        else:
            del self._quotas[entity]
        self._apply()

    def _apply(self) -> None:
        from kavka.core.quota.alterations import CLIENT_KEYS, CONNECTION_CREATION_RATE, limits_in
        from kavka.core.quota.entities import DEFAULT

        limits: dict[str, dict[QuotaEntity, float]] = {key: {} for key in CLIENT_KEYS}
        ip_rates: dict[str | None, float] = {}
        for entity, quotas in self._quotas.items():
            for key, limit in limits_in(entity, quotas).items():
                if key == CONNECTION_CREATION_RATE:
                    if entity.ip is DEFAULT:
                        ip_rates[None] = limit
                    elif (address := _address(str(entity.ip))) is not None:
                        ip_rates[address] = limit
                else:
                    limits[key][entity] = limit
        self.ip_rates = ip_rates
        if any(limits.values()):
            self.client_quotas = self._with_limits(limits)
        else:
            self.client_quotas = None
            if self.counted is not None:
                self.counted.set_limits(limits)  # or the loop's work would still be measured
        self._enforce(self.client_quotas)

    def _with_limits(self, limits: dict[str, dict[QuotaEntity, float]]) -> ClientQuotas:
        """Return what enforces these limits; it keeps what it has counted."""
        if self.counted is None:
            from kavka.broker.quotas.client_quotas import ClientQuotas

            self.counted = ClientQuotas(self._context.config, self._context.clock)
        self.counted.set_limits(limits)
        return self.counted


def _address(text: str) -> str | None:
    """Return an address as connections have it; None, with a warning, for a host name that Apache Kafka stored."""
    from ipaddress import ip_address

    try:
        address = ip_address(text)
        return str(getattr(address, "ipv4_mapped", None) or address)
    except ValueError:
        log.warning("quota of a host name ignored: this broker takes addresses only name=%r", text)
        return None
