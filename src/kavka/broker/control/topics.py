"""Topics and settings as clients change them, on any broker.

create, grow, delete     the controller only: checked, placed, and asked of its machine
create by use            any broker: the controller finds the znodes (as Kafka 3.9 does with ZooKeeper)
settings                 any broker: the znode, and a notification for all brokers
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kavka.broker.configs.overrides import ConfigRefused, check_new_topic_overrides
from kavka.broker.context import BrokerContext
from kavka.broker.control.controller import Controller
from kavka.broker.control.controller_term import NotControllerError
from kavka.broker.control.registry_writer import multi_merging_configs
from kavka.broker.metadata.cache import INTERNAL_TOPICS
from kavka.core.controller.events import (
    CreatePartitionsRequested,
    CreateTopicRequested,
    DeleteTopicRequested,
    Event,
    TopicToCreate,
)
from kavka.core.controller.placement import machine_of, place_replicas
from kavka.core.controller.records import TopicCreated, operations_of
from kavka.core.controller.replies import (
    TopicReply,
    Verdict,
)
from kavka.core.controller.state import Assignment
from kavka.core.controller.topics import (
    NewTopic,
    Shape,
    TopicRefusal,
    check_growth,
    check_new_topic,
)
from kavka.core.machine import Token
from kavka.core.znodes import ZnodeError
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, TopicId
from kavka.registry.interface import RegistryRefused

log = logging.getLogger(__name__)

_NOT_CONTROLLER = TopicRefusal(ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER.message)
# By the number of partitions ids are assigned to them. Kafka allows this, and its brokers go by the number that they
# saw at their start: after the next restart, groups have lost their offsets, and a transaction has two coordinators.
_FIXED = (
    "The number of partitions of '{}' cannot be changed: "
    "groups and transactional ids would move away from what is stored of them."
)
_MAX_S = 30 * 24 * 3600


class CreatedTopic(NamedTuple):
    """The outcome of a creation: the topic as it is, or would be."""

    topic_id: TopicId
    partitions: int
    replication_factor: int


Accept = Callable[[int], bool]
"""Return whether a quota allows to create or delete so many partitions, and count them then."""


def unlimited(partitions: int) -> bool:
    """Allow each change: there is no quota."""
    return True


def over_quota() -> TopicRefusal:
    """Return the refusal of a change that the quota of changes does not allow now."""
    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    return TopicRefusal(code, code.message)


class BrokerLocation(NamedTuple):
    """A broker's location for placement: its rack, and its machine; None where unknown."""

    rack: str | None
    machine: str | None


class Topics:
    """Creates and deletes topics, and adds partitions to them."""

    def __init__(
        self,
        context: BrokerContext,
        controller: Controller,
        internal_topic: Callable[[str], NewTopic | None],
    ) -> None:
        """Change what this broker, its registry and its controller know.

        `internal_topic` returns the topic that coordinators want by a name; None for the name of any other topic.
        """
        self._context = context
        self._controller = controller
        self._internal_topic = internal_topic

    # -- creation

    async def create(
        self,
        topic: NewTopic,
        *,
        validate_only: bool,
        timeout_ms: int | None = None,
        accept: Accept = unlimited,
    ) -> CreatedTopic | TopicRefusal:
        """Create a topic as controller, or say why not. Raise ConnectionError."""
        controller = self._controller
        if not controller.is_active:
            return _NOT_CONTROLLER
        state = controller.state
        checked = self._checked(topic, state.topics, state.live)
        if isinstance(checked, TopicRefusal):
            return checked
        shape, overrides = checked
        if validate_only:
            return CreatedTopic(NO_TOPIC_ID, shape.partitions, shape.replication_factor)
        if not accept(shape.partitions):
            return over_quota()
        wanted = TopicToCreate(
            topic.name,
            TopicId(self._context.random.random_bytes(16)),
            {p: tuple(r) for p, r in self._assignment(shape, self._live_locations()).items()},
            overrides,
        )
        verdict = await self._ask(
            topic.name, lambda token: CreateTopicRequested(token, wanted), timeout_ms
        )
        if verdict.code is not ErrorCode.NONE:
            return TopicRefusal(verdict.code, verdict.message or verdict.code.message)
        log.info("topic created topic=%s partitions=%d", topic.name, shape.partitions)
        return CreatedTopic(wanted.topic_id, shape.partitions, shape.replication_factor)

    async def auto_create(
        self, topic: NewTopic, accept: Accept = unlimited
    ) -> CreatedTopic | TopicRefusal:
        """Create a topic that a client uses, on any broker; its leaders are known a little later."""
        if self._controller.is_active:
            return await self.create(topic, validate_only=False, accept=accept)
        locations = self._known_locations()
        checked = self._checked(topic, self._context.metadata.topics, sorted(locations))
        if isinstance(checked, TopicRefusal):
            return checked
        shape, overrides = checked
        if not accept(shape.partitions):
            return over_quota()
        topic_id = TopicId(self._context.random.random_bytes(16))
        assignment = self._assignment(shape, locations)
        record = TopicCreated(
            topic.name,
            topic_id,
            {p: Assignment(tuple(replicas)) for p, replicas in assignment.items()},
            overrides,
        )
        try:
            await multi_merging_configs(self._context.registry, operations_of(record))
        except RegistryRefused as refused:
            if refused.error is not ZnodeError.NODE_EXISTS:
                raise
            message = f"Topic '{topic.name}' already exists."
            return TopicRefusal(ErrorCode.TOPIC_ALREADY_EXISTS, message)
        return CreatedTopic(topic_id, shape.partitions, shape.replication_factor)

    async def create_automatically(self, name: str, accept: Accept = unlimited) -> ErrorCode:
        """Create a topic because a client asked for its metadata; return why not, or that its leader is on the way."""
        topic = self._internal_topic(name) or NewTopic(name, -1, -1, {}, {})
        outcome = await self.auto_create(topic, accept)
        if isinstance(outcome, TopicRefusal):
            log.info("automatic creation refused topic=%s reason=%s", name, outcome.message)
            if outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                return outcome.code
        return ErrorCode.LEADER_NOT_AVAILABLE

    def _checked(
        self, topic: NewTopic, existing: Mapping[str, object], brokers: Sequence[int]
    ) -> tuple[Shape, dict[str, str]] | TopicRefusal:
        effective_configs = self._context.effective_configs
        shape = check_new_topic(
            topic,
            existing.keys(),
            brokers,
            effective_configs.broker_integer("num.partitions"),
            effective_configs.broker_integer("default.replication.factor"),
        )
        if isinstance(shape, TopicRefusal):
            return shape
        try:
            return shape, check_new_topic_overrides(effective_configs, topic.config)
        except ConfigRefused as refused:
            return TopicRefusal(refused.code, str(refused))

    def _assignment(
        self, shape: Shape, locations: Mapping[int, BrokerLocation], *, first_partition: int = 0
    ) -> Mapping[int, Sequence[int]]:
        """Return the replicas that were given, or place them: over racks if every broker has one, and over machines."""
        if shape.assignment:
            return shape.assignment
        brokers = sorted(locations)
        racks = {b: place.rack for b, place in locations.items() if place.rack is not None}
        random = self._context.random
        placed = place_replicas(
            brokers,
            shape.partitions,
            shape.replication_factor,
            start=int(random.random() * len(brokers)),
            shift=int(random.random() * len(brokers)),
            first_partition=first_partition,
            racks=racks if len(racks) == len(brokers) else None,
            machines={
                b: place.machine for b, place in locations.items() if place.machine is not None
            },
        )
        return {first_partition + index: replicas for index, replicas in enumerate(placed)}

    def _live_locations(self) -> dict[int, BrokerLocation]:
        """Return the place of each live broker, as the controller knows it."""
        state = self._controller.state
        return {
            b: self._location(state.brokers[b].rack, [e[:2] for e in state.brokers[b].endpoints])
            for b in state.live
        }

    def _known_locations(self) -> dict[int, BrokerLocation]:
        """Return the location of each live broker in the metadata cache."""
        return {
            int(b): self._location(live.rack, [(e.name, e.host) for e in live.endpoints])
            for b, live in self._context.metadata.brokers.items()
        }

    def _location(self, rack: str | None, hosts: Sequence[tuple[str, str]]) -> BrokerLocation:
        """Return a place by the host of the listener between brokers, or else the first; `hosts` go with listeners."""
        host = dict(hosts).get(
            self._context.config.inter_broker_listener, hosts[0][1] if hosts else None
        )
        return BrokerLocation(rack, None if host is None else machine_of(host))

    # -- growth and deletion

    async def create_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool,
        timeout_ms: int | None = None,
        accept: Accept = unlimited,
    ) -> TopicRefusal | None:
        """Add partitions, as controller, until there are `count`."""
        controller = self._controller
        if not controller.is_active:
            return _NOT_CONTROLLER
        state = controller.state
        topic = state.topics.get(name)
        if topic is None or name in state.deletions:
            message = f"The topic '{name}' does not exist."
            return TopicRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        if name in INTERNAL_TOPICS:
            return TopicRefusal(ErrorCode.INVALID_REQUEST, _FIXED.format(name))
        present = {p: list(a.replicas) for p, a in topic.assignments.items()}
        shape = check_growth(name, present, count, assignments, state.live)
        if isinstance(shape, TopicRefusal) or validate_only:
            return shape if isinstance(shape, TopicRefusal) else None
        if not accept(shape.partitions):
            return over_quota()
        placed = self._assignment(shape, self._live_locations(), first_partition=len(present))
        added = {p: tuple(replicas) for p, replicas in placed.items()}
        verdict = await self._ask(
            name, lambda token: CreatePartitionsRequested(token, name, added), timeout_ms
        )
        if verdict.code is not ErrorCode.NONE:
            return TopicRefusal(verdict.code, verdict.message or verdict.code.message)
        log.info("partitions added topic=%s partitions=%d", name, count)
        return None

    async def delete(
        self, name: str, topic_id: TopicId, timeout_ms: int | None = None
    ) -> TopicRefusal | None:
        """Delete a topic as controller; a refusal when there is none of that name and id, which may be a successor's.

        It is gone when this returns, unless a broker that is away has yet to delete its replicas.
        """
        if not self._controller.is_active:
            return _NOT_CONTROLLER
        verdict = await self._ask(
            name, lambda token: DeleteTopicRequested(token, name, topic_id), timeout_ms
        )
        if verdict.code is not ErrorCode.NONE:
            return TopicRefusal(verdict.code, verdict.message or verdict.code.message)
        log.info("topic deleted topic=%s", name)
        return None

    async def _ask(
        self, topic: str, make: Callable[[Token], Event], timeout_ms: int | None
    ) -> Verdict:
        """Ask the machine about a topic, and wait until this broker shows what came of it."""
        controller = self._controller
        timeout_s = _MAX_S if timeout_ms is None else max(0, timeout_ms) / 1000
        try:
            async with asyncio.timeout(timeout_s):
                reply: TopicReply = await controller.submit_and_wait(make)
                if reply.verdict.code is ErrorCode.NONE:
                    await controller.wait_until_published(topic)
        except TimeoutError:
            return Verdict(ErrorCode.REQUEST_TIMED_OUT)
        except NotControllerError:
            return Verdict(ErrorCode.NOT_CONTROLLER)
        return reply.verdict
