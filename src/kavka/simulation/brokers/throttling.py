"""Throttles of replication (KIP-73): set and taken away by administrators.

While all replicas are in sync a throttle must not be felt: it is for those that have to catch up. When it is gone, all
of them must catch up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kavka.client.admin.admin import Admin
from kavka.client.admin.configs import AlterOp, ConfigOp, ConfigResource, ResourceType
from kavka.errors import KafkaError
from kavka.simulation.brokers.scenario import ClusterScenario
from kavka.simulation.checker import Checker
from kavka.simulation.load.producers import ProducerNode
from kavka.simulation.world import World

SIDES = ("leader", "follower")
LOWEST = "10"
"""Bytes per second: a batch takes half a minute."""
RATES = (LOWEST, "300", "3000")
_LATE_RECORDS = 12


async def throttle(admin: Admin, scenario: ClusterScenario, rate: str) -> None:
    """Throttle the replicas of users' topics to `rate` bytes per second. Raise KafkaError, OSError."""
    await _alter(
        admin,
        scenario,
        [ConfigOp(f"{side}.replication.throttled.rate", rate, AlterOp.SET) for side in SIDES],
        [ConfigOp(f"{side}.replication.throttled.replicas", "*", AlterOp.SET) for side in SIDES],
    )


async def lift_throttle(admin: Admin, scenario: ClusterScenario) -> None:
    """Take the throttle away, however often it takes."""
    rates = [ConfigOp(f"{side}.replication.throttled.rate", None, AlterOp.DELETE) for side in SIDES]
    replicas = [
        ConfigOp(f"{side}.replication.throttled.replicas", None, AlterOp.DELETE) for side in SIDES
    ]
    while True:
        try:
            await _alter(admin, scenario, rates, replicas)
            return
        except (KafkaError, OSError):
            await asyncio.sleep(0.3)


async def _alter(
    admin: Admin,
    scenario: ClusterScenario,
    of_brokers: Iterable[ConfigOp],
    of_topics: Iterable[ConfigOp],
) -> None:
    ops = {
        ConfigResource(ResourceType.BROKER, str(number)): list(of_brokers)
        for number in scenario.numbers
    }
    ops |= {ConfigResource(ResourceType.TOPIC, topic): list(of_topics) for topic in scenario.topics}
    outcomes = await admin.incremental_alter_configs(ops, timeout_ms=8000)
    for outcome in outcomes.values():
        if isinstance(outcome, KafkaError):
            raise outcome


class LateProducerNode(ProducerNode):
    """Sends a few records more, when all replicas are in sync: a throttle must not hold it up."""

    def __init__(
        self, world: World, name: str, scenario: ClusterScenario, checker: Checker
    ) -> None:
        """Begin with some records to send."""
        super().__init__(world, name, scenario, checker)
        self._left = _LATE_RECORDS
