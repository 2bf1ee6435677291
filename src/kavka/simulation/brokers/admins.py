"""Administrators of a cluster, with kavka's admin client.

They make, grow, configure and delete topics, delete records, move partitions and stop moves, change how many replicas
there are, move replicas between directories, and elect leaders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from kavka.client.admin.admin import Admin
from kavka.client.admin.configs import AlterOp, ConfigOp, ConfigResource, ResourceType
from kavka.client.admin.elections import ElectionType
from kavka.client.admin.replica_log_dirs import Replica
from kavka.client.admin.topics import NewPartitions, NewTopic
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.simulation.brokers.scenario import ClusterScenario
from kavka.simulation.brokers.throttling import LOWEST, RATES, lift_throttle, throttle
from kavka.simulation.checker import Checker
from kavka.simulation.environment import SimEnvironment
from kavka.simulation.events import Deleted
from kavka.simulation.load.client import ClientNode
from kavka.simulation.scenario import Scenario
from kavka.simulation.world import World

T = TypeVar("T")
_TIMEOUT_MS = 8000
_ANYWHERE = 1 << 62
_INTERNAL = (TopicPartition("__consumer_offsets", 0), TopicPartition("__transaction_state", 0))


def _admin(node: ClientNode, environment: SimEnvironment) -> Admin:
    return environment.with_client(
        Admin(
            {
                "bootstrap.servers": node.scenario.servers,
                "client.id": node.client_id,
                "request.timeout.ms": "3000",
            },
            network=environment.network,
            clock=environment.clock,
            random=environment.random,
        )
    )


async def _started(admin: Admin) -> Admin:
    """Connect, trying again until a broker answers."""
    while True:
        try:
            await admin.start()
            return admin
        except OSError:
            await asyncio.sleep(0.3)


class ClusterSetUpNode(ClientNode):
    """Makes the topics of the run."""

    async def work(self, environment: SimEnvironment) -> None:
        """Make every topic, however often it takes."""
        assert isinstance(self.scenario, ClusterScenario)
        admin = await _started(_admin(self, environment))
        for topic, partitions in self.scenario.made_topics.items():
            configs = self.scenario.configs_of(topic)
            new = NewTopic(topic, partitions, self.scenario.replication, configs)
            while True:
                try:
                    outcome = (await admin.create_topics([new], timeout_ms=_TIMEOUT_MS))[topic]
                except OSError:
                    await asyncio.sleep(0.3)
                    continue
                if not isinstance(outcome, KafkaError):
                    break
                if outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                    break
                await asyncio.sleep(0.3)
        await admin.close()


class ClusterAdminNode(ClientNode):
    """Performs a dozen administrative operations; failures are traced and ignored."""

    def __init__(self, world: World, name: str, scenario: Scenario, checker: Checker) -> None:
        """Begin without actions done."""
        super().__init__(world, name, scenario, checker)
        self.cut: set[TopicPartition] = set()
        """Requested offsets of DeleteRecords: a group may have skipped what a failover brings back."""

    async def work(self, environment: SimEnvironment) -> None:
        """Run the actions, one after the other."""
        admin = await _started(_admin(self, environment))
        actions: list[Callable[[Admin], Awaitable[str]]] = [
            self._create,
            self._create,
            self._delete,
            self._create_partitions,
            self._move,
            self._move,
            self._cancel_moves,
            self._elect,
            self._reconfigure,
            self._delete_records,
        ]
        if self._cluster.throttles:
            actions += [self._throttle] * 2
        if len(self._cluster.log_dirs) > 1:
            actions += [self._move_between_directories] * 2
        for _ in range(12):
            await asyncio.sleep(self.source.expovariate(1))
            action = self.source.choice(actions)
            try:
                says = await action(admin)
            except (KafkaError, OSError) as error:
                says = f"fails: {error}"
            self.world.trace.add(self.name, f"{action.__name__[1:].replace('_', ' ')} {says}")
        if self._cluster.throttles:
            await lift_throttle(admin, self._cluster)
        await admin.close()

    @property
    def _cluster(self) -> ClusterScenario:
        assert isinstance(self.scenario, ClusterScenario)
        return self.scenario

    def _create_and_delete(self) -> str:
        """Choose a topic without other users."""
        return f"fleeting-{self.source.randrange(2)}"

    def _some_brokers(self) -> list[int]:
        """Choose where replicas shall be."""
        factors = self._cluster.factors
        factor = factors[0] if len(factors) == 1 else self.source.choice(factors)
        return self.source.sample(list(self._cluster.numbers), factor)

    async def _create(self, admin: Admin) -> str:
        name = self._create_and_delete()
        new = NewTopic(name, self.source.randint(1, 3), self._cluster.replication)
        return _outcomes_text(await admin.create_topics([new], timeout_ms=_TIMEOUT_MS))

    async def _delete(self, admin: Admin) -> str:
        return _outcomes_text(
            await admin.delete_topics([self._create_and_delete()], timeout_ms=_TIMEOUT_MS)
        )

    async def _create_partitions(self, admin: Admin) -> str:
        wanted = {self._create_and_delete(): NewPartitions(self.source.randint(2, 5))}
        return _outcomes_text(await admin.create_partitions(wanted, timeout_ms=_TIMEOUT_MS))

    async def _move(self, admin: Admin) -> str:
        there = [*self.scenario.partitions, *self._cluster.payments]
        chosen = self.source.sample(there, self.source.randint(1, len(there)))
        targets = {partition: self._some_brokers() for partition in chosen}
        outcome = await admin.alter_partition_reassignments(targets, timeout_ms=_TIMEOUT_MS)
        return _moves_text(outcome, targets)

    async def _move_between_directories(self, admin: Admin) -> str:
        """Place every replica of a broker that is there to be placed."""
        broker = self.source.choice(list(self._cluster.numbers))
        there = [*self.scenario.partitions, *self._cluster.payments, *_INTERNAL]
        chosen = self.source.sample(there, self.source.randint(1, len(there)))
        targets = {
            Replica(topic_partition.topic, topic_partition.partition, broker): self.source.choice(
                self._cluster.log_dirs
            )
            for topic_partition in chosen
        }
        outcome = await admin.alter_replica_log_dirs(targets, timeout_ms=_TIMEOUT_MS)
        return _moves_text(outcome, targets)

    async def _cancel_moves(self, admin: Admin) -> str:
        moves = await admin.list_partition_reassignments(timeout_ms=_TIMEOUT_MS)
        if not moves:
            return "of nothing"
        stop = dict.fromkeys(moves)
        return _outcomes_text(
            await admin.alter_partition_reassignments(stop, timeout_ms=_TIMEOUT_MS)
        )

    async def _elect(self, admin: Admin) -> str:
        return _outcomes_text(
            await admin.elect_leaders(ElectionType.PREFERRED, timeout_ms=_TIMEOUT_MS)
        )

    async def _throttle(self, admin: Admin) -> str:
        rate = self.source.choice(RATES)
        await throttle(admin, self._cluster, rate)
        return f"to {rate} bytes a second: done"

    async def _reconfigure(self, admin: Admin) -> str:
        topic = self.source.choice(list(self.scenario.topics))
        size = self.source.choice(["500", "3000", "50000"])
        ops = {
            ConfigResource(ResourceType.TOPIC, topic): [
                ConfigOp("segment.bytes", size, AlterOp.SET)
            ]
        }
        return _outcomes_text(await admin.incremental_alter_configs(ops, timeout_ms=_TIMEOUT_MS))

    async def _delete_records(self, admin: Admin) -> str:
        partition = self.source.choice(self.scenario.partitions)
        offset = self.source.choice([-1, self.source.randrange(40)])
        self.cut.add(partition)
        self.checker.observe(Deleted(partition, _ANYWHERE if offset == -1 else offset))
        return _outcomes_text(
            await admin.delete_records({partition: offset}, timeout_ms=_TIMEOUT_MS)
        )


class ThrottleNode(ClientNode):
    """Throttles replication to the lowest rate, for clients that work while all replicas are in sync."""

    async def work(self, environment: SimEnvironment) -> None:
        """Set the throttle, however often it takes."""
        assert isinstance(self.scenario, ClusterScenario)
        admin = await _started(_admin(self, environment))
        while True:
            try:
                await throttle(admin, self.scenario, LOWEST)
                break
            except (KafkaError, OSError):
                await asyncio.sleep(0.3)
        await admin.close()


class LiftNode(ClientNode):
    """Takes all throttles away."""

    async def work(self, environment: SimEnvironment) -> None:
        """Run the action until it succeeds."""
        assert isinstance(self.scenario, ClusterScenario)
        admin = await _started(_admin(self, environment))
        await lift_throttle(admin, self.scenario)
        await admin.close()


def _outcomes_text(outcomes: object) -> str:
    assert isinstance(outcomes, dict)
    return ", ".join(f"{what}: {_name(outcome)}" for what, outcome in outcomes.items())


def _moves_text(outcomes: Mapping[T, object], targets: Mapping[T, object]) -> str:
    return ", ".join(f"{what} to {targets[what]}: {_name(o)}" for what, o in outcomes.items())


def _name(outcome: object) -> str:
    return outcome.code.name if isinstance(outcome, KafkaError) else "done"
