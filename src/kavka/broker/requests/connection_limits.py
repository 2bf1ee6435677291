"""Bounds of connections, and of the memory of their requests."""

from __future__ import annotations

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.configs.effective_configs import EffectiveConfigs
from kavka.net.frames import READ_BYTES
from kavka.net.request_budget import BudgetLimits
from kavka.settings.connections import parse_overrides_per_ip

_SHARE = 16
_MIN_BYTES, _MAX_BYTES = 64 << 20, 1 << 30


def budget_limits(config: BrokerConfig, memory_bytes: int) -> BudgetLimits:
    """Return the bounds of all requests together, on a machine with so much memory.

    What may be read above the limit to finish a request is within the setting, unless that is very small.
    """
    own = config.values["kavka.queued.max.request.bytes"]
    if not isinstance(own, int):
        own = min(max(memory_bytes // _SHARE, _MIN_BYTES), _MAX_BYTES)
    largest = config.integer("socket.request.max.bytes")
    above = largest + 2 * READ_BYTES
    limit_bytes = max((own - above) * 8 // 9, own // 2)  # an eighth of it comes on top
    kafkas = config.integer("queued.max.request.bytes")
    if kafkas > 0:
        limit_bytes = min(limit_bytes, kafkas)
    return BudgetLimits(
        limit_bytes,
        limit_bytes + above,
        config.integer("queued.max.requests"),
        config.integer("kavka.queued.request.stall.ms"),
    )


class ConnectionLimits:
    """Counts connections by address."""

    def __init__(self, effective_configs: EffectiveConfigs) -> None:
        """Begin with none, under the settings in force at any time."""
        self._effective_configs = effective_configs
        self._by_address: dict[str, int] = {}
        self._overrides: tuple[str, dict[str, int]] = ("", {})

    def enter(self, host: str) -> str | None:
        """Count a connection from this address, or return the setting that refuses it."""
        of_address = self._by_address.get(host, 0)
        limit = self._overridden().get(host)
        if limit is not None:
            if of_address >= limit:
                return "max.connections.per.ip.overrides"
        elif of_address >= self._effective_configs.broker_integer("max.connections.per.ip"):
            return "max.connections.per.ip"
        self._by_address[host] = of_address + 1
        return None

    def leave(self, host: str) -> None:
        """Remove a closed connection from the count."""
        self._by_address[host] -= 1
        if not self._by_address[host]:
            del self._by_address[host]

    def _overridden(self) -> dict[str, int]:
        text = str(
            self._effective_configs.broker_values()["max.connections.per.ip.overrides"] or ""
        )
        if text != self._overrides[0]:
            self._overrides = (text, parse_overrides_per_ip(text))
        return self._overrides[1]
