"""Quotas as an administrator sets them, over the wire."""

from __future__ import annotations

from copy import copy
from typing import Any

from kavka.net.clock import SystemClock
from kavka.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasRequestOp,
)
from kavka.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
)
from support.one_broker import Served

Entity = dict[str, str | None]
"""Names by type: user, client-id, ip; the name None is the default."""
EXACT, DEFAULT, ANY = range(3)


class StandingClock(SystemClock):
    """The machine's clock, whose ticks stand still: what a rate allows does not depend on the speed of a test."""

    __slots__ = ("_tick_ms",)

    def __init__(self, tick_ms: int | None = None) -> None:
        """Stand at a tick, by default the present one."""
        self._tick_ms = super().tick_ms() if tick_ms is None else tick_ms

    def tick_ms(self) -> int:
        """Return the tick at which the clock stands."""
        return self._tick_ms


def stop_time(served: Served) -> None:
    """Count the quotas of clients that are set from now on by a clock that stands."""
    quotas = served.broker.quotas
    assert quotas.counted is None, "quotas have been set, and count by the broker's clock"
    quotas._context = copy(quotas._context)
    quotas._context.clock = StandingClock()


async def alter(
    served: Served, entity: Entity, quotas: dict[str, float | None], *, validate_only: bool = False
) -> Any:
    """Set quotas, remove those that are None, and return the response."""
    entry = AlterClientQuotasRequestEntry(
        entity=[
            AlterClientQuotasRequestEntity(entity_type=kind, entity_name=name)
            for kind, name in entity.items()
        ],
        ops=[
            AlterClientQuotasRequestOp(key=key, value=value or 0.0, remove=value is None)
            for key, value in quotas.items()
        ],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
    (response,) = (await served.send(request)).entries
    return response


async def describe(
    served: Served, *components: tuple[str, int, str | None], strict: bool = False
) -> list[tuple[Entity, dict[str, float]]]:
    """Return the entities that fit components (type, kind of match, name), with their quotas."""
    asked = [
        DescribeClientQuotasRequestComponent(entity_type=kind, match_type=match, match=name)
        for kind, match, name in components
    ]
    response = await served.send(DescribeClientQuotasRequest(components=asked, strict=strict))
    assert response.error_code == 0
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in response.entries
    ]
