"""The controller's hands: what core decides about topics is stored in the registry, then told to the replicas.

    check (core) -> one multi: topic, config, partition states -> replicas lead -> metadata shows the topic

The znodes are those of Apache Kafka 3.9, so a topic exists as soon as its multi is committed, whoever dies afterwards:
the next controller finds it and goes on from there. Every multi checks the epoch of this controller's election. Changes
are made one after another, as by the controller thread of Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kavka.broker.configs import ConfigRefused, Configs, check_topic_overrides
from kavka.broker.metadata import (
    INTERNAL_TOPICS,
    NO_LEADER,
    MetadataCache,
    PartitionNews,
    TopicNews,
)
from kavka.broker.replicas import Replicas
from kavka.core.controller.placement import place_replicas
from kavka.core.controller.topics import (
    NewTopic,
    Shape,
    TopicRefusal,
    check_growth,
    check_new_topic,
)
from kavka.core.znodes import Check, Create, Delete, Operation, SetData, Stat, ZnodeError
from kavka.doors import Chance, Clock
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from kavka.registry.interface import Registry, RegistryRefused
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import StateNode, TopicNode

log = logging.getLogger(__name__)

NOT_TOPICS = frozenset({"__cluster_metadata"})
"""Logs that look like a topic's in a directory of a KRaft broker."""


class CreatedTopic(NamedTuple):
    """The outcome of a creation: the topic as it is, or would be."""

    topic_id: TopicId
    partitions: int
    replication_factor: int


class Controller:
    """Topics and leadership of a cluster that has this broker alone."""

    def __init__(
        self,
        broker_id: BrokerId,
        registry: Registry,
        metadata: MetadataCache,
        configs: Configs,
        replicas: Replicas,
        clock: Clock,
        chance: Chance,
    ) -> None:
        """Decide nothing before `start`."""
        self._broker_id = broker_id
        self._registry = registry
        self._metadata = metadata
        self._configs = configs
        self._replicas = replicas
        self._clock = clock
        self._chance = chance
        self._epoch = 0
        self._epoch_version = 0
        self._turn = asyncio.Lock()

    async def start(self, *, bump_epochs: bool) -> None:
        """Become controller and lead every partition that is in the registry.

        `bump_epochs` is for a start after an unclean stop: what the log lost may be written anew, so its readers
        must see another leader epoch.
        """
        await self._elect()
        for name in await self._registry.children(znodes.DELETED_TOPICS):
            await self._finish_deletion(name)
        await self._adopt_logs()
        for name in await self._registry.children(znodes.TOPICS):
            await self._load_topic(name, bump_epochs=bump_epochs)

    async def _elect(self) -> None:
        """Take `/controller` and raise the epoch, in one multi."""
        node = znodes.encode_controller(self._broker_id, self._clock.now_ms())
        stat = await self._registry.stat(znodes.CONTROLLER_EPOCH)
        if stat is None:
            self._epoch = 1
            raise_epoch: Operation = Create(znodes.CONTROLLER_EPOCH, b"1")
        else:
            data, stat = await self._registry.get(znodes.CONTROLLER_EPOCH)
            self._epoch = int(data) + 1
            raise_epoch = SetData(znodes.CONTROLLER_EPOCH, str(self._epoch).encode(), stat.version)
        await self._registry.multi([Create(znodes.CONTROLLER, node, ephemeral=True), raise_epoch])
        self._epoch_version = 0 if stat is None else stat.version + 1
        self._metadata.controller_id = self._broker_id
        log.info("controller elected broker=%d epoch=%d", self._broker_id, self._epoch)

    # -- loading

    async def _load_topic(self, name: str, *, bump_epochs: bool) -> None:
        data, _stat = await self._registry.get(znodes.topic_path(name))
        node = TopicNode.decode(data)
        overrides = await self._overrides(name)
        self._configs.put_topic(name, overrides)
        states = [await self._state(name, p, node.assignment[p]) for p in sorted(node.assignment)]
        if bump_epochs:
            states = await self._bumped(name, states)
        partitions = self._news(node.assignment, states)
        await self._host(name, node.topic_id, partitions, range(len(partitions)))

    async def _overrides(self, name: str) -> dict[str, str]:
        path = znodes.config_path("topics", name)
        if await self._registry.stat(path) is None:
            return {}
        return znodes.decode_config((await self._registry.get(path))[0])

    async def _state(
        self, name: str, partition: int, replicas: Sequence[int]
    ) -> tuple[StateNode, int]:
        """Return a partition's state and its version, electing the first leader where there is none yet."""
        path = znodes.state_path(name, partition)
        stat = await self._registry.stat(path)
        if stat is not None:
            data, stat = await self._registry.get(path)
            return StateNode.decode(data), stat.version
        state = StateNode(replicas[0], 0, self._epoch, list(replicas))
        operations: list[Operation] = []
        for parent in (
            f"{znodes.topic_path(name)}/partitions",
            znodes.partition_path(name, partition),
        ):
            if await self._registry.stat(parent) is None:
                operations.append(Create(parent))
        await self._multi([*operations, Create(path, state.encode())])
        return state, 0

    async def _bumped(
        self, name: str, states: Sequence[tuple[StateNode, int]]
    ) -> list[tuple[StateNode, int]]:
        """Raise the leader epoch of all partitions of a topic."""
        raised = [
            (
                state._replace(
                    leader=self._broker_id,
                    leader_epoch=state.leader_epoch + 1,
                    controller_epoch=self._epoch,
                ),
                version + 1,
            )
            for state, version in states
        ]
        await self._multi(
            [
                SetData(znodes.state_path(name, partition), state.encode(), version - 1)
                for partition, (state, version) in enumerate(raised)
            ]
        )
        return raised

    # -- topics

    async def create_topic(
        self, topic: NewTopic, *, validate_only: bool
    ) -> CreatedTopic | TopicRefusal:
        """Create a topic, or say why not."""
        async with self._turn:
            shape = check_new_topic(
                topic,
                self._metadata.topics,
                sorted(self._metadata.brokers),
                self._configs.broker_integer("num.partitions"),
                self._configs.broker_integer("default.replication.factor"),
            )
            if isinstance(shape, TopicRefusal):
                return shape
            try:
                overrides = check_topic_overrides(topic.config)
            except ConfigRefused as refused:
                return TopicRefusal(refused.code, str(refused))
            if validate_only:
                return CreatedTopic(NO_TOPIC_ID, shape.partitions, shape.replication_factor)
            assignment = shape.assignment or self._placed(shape, first_partition=0)
            topic_id = TopicId(self._chance.random_bytes(16))
            try:
                await self._store_topic(topic.name, topic_id, assignment, overrides)
            except RegistryRefused as refused:
                if refused.error is ZnodeError.NODE_EXISTS:
                    message = f"Topic '{topic.name}' already exists."
                    return TopicRefusal(ErrorCode.TOPIC_ALREADY_EXISTS, message)
                raise
            self._configs.put_topic(topic.name, overrides)
            states = [(self._first_state(assignment[p]), 0) for p in sorted(assignment)]
            partitions = self._news(assignment, states)
            await self._host(topic.name, topic_id, partitions, range(len(partitions)))
            log.info("topic created topic=%s partitions=%d", topic.name, len(partitions))
            return CreatedTopic(topic_id, shape.partitions, shape.replication_factor)

    async def grow_topic(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool,
    ) -> TopicRefusal | None:
        """Add partitions until there are `count`."""
        async with self._turn:
            topic = self._metadata.topics.get(name)
            if topic is None:
                message = f"The topic '{name}' does not exist."
                return TopicRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
            data, stat = await self._registry.get(znodes.topic_path(name))
            node = TopicNode.decode(data)
            brokers = sorted(self._metadata.brokers)
            shape = check_growth(name, node.assignment, count, assignments, brokers)
            if isinstance(shape, TopicRefusal) or validate_only:
                return shape if isinstance(shape, TopicRefusal) else None
            present = len(node.assignment)
            added = shape.assignment or self._placed(shape, first_partition=present)
            whole = node._replace(assignment={**node.assignment, **added})
            operations: list[Operation] = [
                SetData(znodes.topic_path(name), whole.encode(), stat.version)
            ]
            operations += self._partition_nodes(name, added)
            await self._multi(operations)
            fresh = self._news(added, [(self._first_state(added[p]), 0) for p in sorted(added)])
            partitions = topic.partitions + fresh
            await self._host(name, topic.topic_id, partitions, range(present, len(partitions)))
            log.info("partitions added topic=%s partitions=%d", name, len(partitions))
            return None

    async def delete_topic(self, name: str) -> bool:
        """Delete a topic; false when there is none.

        The deletion is marked first, so that a crash on the way ends in it and not in the topic.
        """
        async with self._turn:
            topic = self._metadata.topics.get(name)
            if topic is None:
                return False
            await self._multi([Create(f"{znodes.DELETED_TOPICS}/{name}")])
            self._metadata.remove_topic(name)
            self._configs.put_topic(name, None)
            await self._finish_deletion(name)
            self._replicas.topic_deleted(name)
            log.info("topic deleted topic=%s", name)
            return True

    async def _finish_deletion(self, name: str) -> None:
        """Delete the logs of a topic that is marked, then its znodes and the mark."""
        await self._replicas.drop_topic(name)
        paths = await self._below(znodes.topic_path(name))
        config = znodes.config_path("topics", name)
        if await self._registry.stat(config) is not None:
            paths.append(config)
        paths.append(f"{znodes.DELETED_TOPICS}/{name}")
        await self._multi([Delete(path) for path in paths])

    async def _below(self, path: str) -> list[str]:
        """Return a node and all below it, children first; nothing when it does not exist."""
        if await self._registry.stat(path) is None:
            return []
        found: list[str] = []
        for child in await self._registry.children(path):
            found += await self._below(f"{path}/{child}")
        return [*found, path]

    async def _adopt_logs(self) -> None:
        """Take up topics whose logs are on disk and that the registry does not know.

        So a directory that Apache Kafka wrote, or one whose registry was lost, shows all its records again.
        """
        known = set(await self._registry.children(znodes.TOPICS))
        for name, logs in sorted(self._replicas.logs_by_topic().items()):
            if name in known or name in NOT_TOPICS:
                continue
            given = [log_of.topic_id for log_of in logs.values() if log_of.topic_id is not None]
            topic_id = given[0] if given else TopicId(self._chance.random_bytes(16))
            count = max(logs) + 1
            assignment = {partition: [int(self._broker_id)] for partition in range(count)}
            await self._store_topic(name, topic_id, assignment, self._adopted_settings(name))
            log.warning("topic adopted from its logs topic=%s partitions=%d", name, count)

    def _adopted_settings(self, name: str) -> dict[str, str]:
        return {"cleanup.policy": "compact"} if name in INTERNAL_TOPICS else {}

    # -- configuration

    async def configure_topic(self, name: str, make: Callable[[], Mapping[str, str]]) -> None:
        """Store the overrides that `make` gives a topic, and obey them; no other change is under way meanwhile."""
        async with self._turn:
            overrides = make()
            await self._put(znodes.config_path("topics", name), znodes.encode_config(overrides))
            self._configs.put_topic(name, overrides)
            self._replicas.reconfigure(name)

    async def configure_broker(
        self, make: Callable[[], Mapping[str, str]], *, default: bool
    ) -> None:
        """Store the dynamic overrides that `make` gives this broker, or all, and obey them; `make` as above."""
        async with self._turn:
            overrides = make()
            entity = znodes.DEFAULT_ENTITY if default else str(self._broker_id)
            await self._put(znodes.config_path("brokers", entity), znodes.encode_config(overrides))
            self._configs.put_broker(overrides, default=default)
            for topic in list(self._metadata.topics):
                self._replicas.reconfigure(topic)

    # -- inside

    async def _put(self, path: str, data: bytes) -> None:
        stat = await self._registry.stat(path)
        await self._multi([Create(path, data) if stat is None else SetData(path, data)])

    async def _multi(self, operations: Iterable[Operation]) -> None:
        """Do all or nothing, and only while this broker is the controller of its epoch."""
        fence = Check(znodes.CONTROLLER_EPOCH, self._epoch_version)
        await self._registry.multi([fence, *operations])

    def _placed(self, shape: Shape, *, first_partition: int) -> dict[int, list[int]]:
        brokers = sorted(self._metadata.brokers)
        placed = place_replicas(
            brokers,
            shape.partitions,
            shape.replication_factor,
            start=int(self._chance.random() * len(brokers)),
            shift=int(self._chance.random() * len(brokers)),
            first_partition=first_partition,
        )
        return {first_partition + index: replicas for index, replicas in enumerate(placed)}

    def _first_state(self, replicas: Sequence[int]) -> StateNode:
        return StateNode(replicas[0], 0, self._epoch, list(replicas))

    def _partition_nodes(
        self, name: str, assignment: Mapping[int, Sequence[int]]
    ) -> list[Operation]:
        operations: list[Operation] = []
        for partition in sorted(assignment):
            state = self._first_state(assignment[partition])
            operations.append(Create(znodes.partition_path(name, partition)))
            operations.append(Create(znodes.state_path(name, partition), state.encode()))
        return operations

    async def _store_topic(
        self,
        name: str,
        topic_id: TopicId,
        assignment: Mapping[int, Sequence[int]],
        overrides: Mapping[str, str],
    ) -> None:
        node = TopicNode(topic_id, {p: list(replicas) for p, replicas in assignment.items()})
        operations: list[Operation] = [
            Create(znodes.topic_path(name), node.encode()),
            Create(f"{znodes.topic_path(name)}/partitions"),
            *self._partition_nodes(name, assignment),
        ]
        path = znodes.config_path("topics", name)
        stale: Stat | None = await self._registry.stat(path)
        data = znodes.encode_config(overrides)
        operations.append(Create(path, data) if stale is None else SetData(path, data))
        await self._multi(operations)

    def _news(
        self, assignment: Mapping[int, Sequence[int]], states: Sequence[tuple[StateNode, int]]
    ) -> tuple[PartitionNews, ...]:
        return tuple(
            PartitionNews(
                BrokerId(state.leader),
                state.leader_epoch,
                tuple(BrokerId(broker) for broker in assignment[partition]),
                tuple(BrokerId(broker) for broker in state.in_sync_replicas),
                version,
            )
            for partition, (state, version) in zip(sorted(assignment), states, strict=True)
        )

    async def _host(
        self,
        name: str,
        topic_id: TopicId,
        partitions: tuple[PartitionNews, ...],
        which: Iterable[int],
    ) -> None:
        """Lead what this broker leads, then show the topic: whoever sees a leader may write to it."""
        shown = list(partitions)
        for index in which:
            where = TopicPartition(name, index)
            try:
                if partitions[index].leader == self._broker_id:
                    await self._replicas.lead(where, topic_id, partitions[index])
            except OSError as error:
                log.error("partition offline partition=%s reason=%s", where, error)
                shown[index] = partitions[index]._replace(leader=NO_LEADER)
        self._metadata.put_topic(TopicNews(name, topic_id, tuple(shown)))
