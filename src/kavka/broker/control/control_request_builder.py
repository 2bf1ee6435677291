"""Builds LeaderAndIsr, UpdateMetadata and StopReplica from the present state of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kavka.core.controller.broker_updates import PartitionSet, PendingUpdates
from kavka.core.controller.machine import ControllerMachine
from kavka.core.controller.state import Assignment, ClusterState, Leadership, Topic
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, TopicId, TopicPartition
from kavka.wire.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrRequestLeader,
    LeaderAndIsrRequestPartition,
    LeaderAndIsrRequestTopic,
    LeaderAndIsrResponse,
)
from kavka.wire.messages.stop_replica import (
    StopReplicaRequest,
    StopReplicaRequestPartition,
    StopReplicaRequestTopicState,
)
from kavka.wire.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataRequestBroker,
    UpdateMetadataRequestEndpoint,
    UpdateMetadataRequestPartition,
    UpdateMetadataRequestTopic,
)

if TYPE_CHECKING:
    from kavka.broker.control.shared_updates import SharedBodies, SharedUpdateMetadata

T = TypeVar("T", LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)
_LEADER_DURING_DELETE: Final = -2
_SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


LargeWork = Callable[[], AbstractContextManager[None]]
"""Returns the context of work that makes very many objects; see `requests.full_collections`."""
_LARGE: Final = 10_000
"""Partitions from which on the building of a request is large work."""


class ControlRequestBuilder:
    """Makes the requests to one broker."""

    def __init__(
        self,
        machine: ControllerMachine,
        controller_id: int,
        listener: str,
        broker_epoch: int,
        large_work: LargeWork = nullcontext,
        bodies: SharedBodies | None = None,
    ) -> None:
        """Build requests of a controller; `listener` is the one by which followers reach leaders.

        With `bodies`, which the builders of other brokers share, each UpdateMetadata is a `SharedUpdateMetadata`.
        """
        self._state: ClusterState = machine.state
        self._listener = listener
        self._controller_id = controller_id
        self._controller_epoch = machine.epoch
        self._broker_epoch = broker_epoch
        self._large_work = large_work
        self._bodies = bodies

    def _signed(self, request: T) -> T:
        """Return the header: controller id and epoch, and broker epoch."""
        request.controller_id = self._controller_id
        request.controller_epoch = self._controller_epoch
        request.broker_epoch = self._broker_epoch
        return request

    def requests(self, pending: PendingUpdates) -> Iterator[Any]:
        """Yield the requests of pending updates, built one by one."""
        if pending.live_brokers or pending.deleted:
            yield self._update_metadata(PartitionSet(), pending.deleted)
        if pending.leader_and_isr:
            request = self.leader_and_isr(pending.leader_and_isr)
            if request.topic_states:
                yield request
        if pending.metadata:
            yield self._update_metadata(pending.metadata, {})
        if pending.stops:
            yield self.stop_replica(pending)

    # -- LeaderAndIsr

    def leader_and_isr(self, wanted: dict[TopicPartition, bool]) -> LeaderAndIsrRequest:
        """Build LeaderAndIsr; partitions that are gone are left out."""
        topics: dict[str, LeaderAndIsrRequestTopic] = {}
        leaders: dict[int, None] = {}
        for topic_partition in sorted(wanted):
            state = self._replica_state(topic_partition, is_new=wanted[topic_partition])
            if state is None:
                continue
            topic = topics.get(topic_partition.topic)
            if topic is None:
                topic = topics[topic_partition.topic] = LeaderAndIsrRequestTopic(
                    topic_name=topic_partition.topic,
                    topic_id=self._state.topics[topic_partition.topic].topic_id,
                )
            topic.partition_states.append(state)
            leaders[state.leader] = None
        return self._signed(
            LeaderAndIsrRequest(
                topic_states=list(topics.values()), live_leaders=list(self._leaders(leaders))
            )
        )

    def _replica_state(
        self, topic_partition: TopicPartition, *, is_new: bool
    ) -> LeaderAndIsrRequestPartition | None:
        known = self._metadata_state(topic_partition)
        if known is None:
            return None
        assignment, leadership = known
        node = leadership.node
        return LeaderAndIsrRequestPartition(
            partition_index=topic_partition.partition,
            controller_epoch=node.controller_epoch,
            leader=node.leader,
            leader_epoch=node.leader_epoch,
            isr=list(node.in_sync_replicas),
            partition_epoch=leadership.partition_epoch,
            replicas=list(assignment.replicas),
            adding_replicas=list(assignment.adding),
            removing_replicas=list(assignment.removing),
            is_new=is_new,
            leader_recovery_state=int(node.recovering),
        )

    def _metadata_state(
        self, topic_partition: TopicPartition
    ) -> tuple[Assignment, Leadership] | None:
        """Return replicas and leader of a partition; None when it is deleted, or has never had a leader."""
        assignment = self._state.effective_assignment(topic_partition)
        leadership = self._state.leadership(topic_partition)
        return None if assignment is None or leadership is None else (assignment, leadership)

    def _leaders(self, brokers: Iterable[int]) -> Iterator[LeaderAndIsrRequestLeader]:
        for broker in brokers:
            live = self._state.brokers.get(broker)
            for endpoint in live.endpoints if live is not None else ():
                if endpoint.listener == self._listener:
                    yield LeaderAndIsrRequestLeader(
                        broker_id=broker, host_name=endpoint.host, port=endpoint.port
                    )

    # -- UpdateMetadata

    def _update_metadata(
        self, wanted: PartitionSet, deleted: dict[TopicPartition, TopicId]
    ) -> UpdateMetadataRequest | SharedUpdateMetadata:
        def build() -> UpdateMetadataRequest:
            with self._large_work() if len(wanted) >= _LARGE else nullcontext():
                return self.update_metadata(wanted, deleted)

        if self._bodies is None:
            return build()
        return self._bodies.request(*wanted.content(), deleted, self._broker_epoch, build)

    def update_metadata(
        self, wanted: Iterable[TopicPartition], deleted: dict[TopicPartition, TopicId]
    ) -> UpdateMetadataRequest:
        """Make the request that shows partitions, and those that are deleted."""
        topics: dict[str, UpdateMetadataRequestTopic] = {}
        for topic_partition, topic_id in deleted.items():
            gone = UpdateMetadataRequestPartition(
                partition_index=topic_partition.partition,
                leader=_LEADER_DURING_DELETE,
                leader_epoch=-1,
            )
            _topic(topics, topic_partition.topic, topic_id).partition_states.append(gone)
        reachable = frozenset(self._state.reachable)
        for name, partitions in _by_topic(wanted):
            known = self._state.topics.get(name)
            rows = [] if known is None else self._published(known, partitions, reachable)
            if known is not None and rows:
                _topic(topics, name, known.topic_id).partition_states.extend(rows)
        return self._signed(
            UpdateMetadataRequest(
                topic_states=list(topics.values()), live_brokers=list(self._brokers())
            )
        )

    def _published(
        self, topic: Topic, partitions: Iterable[TopicPartition], reachable: frozenset[int]
    ) -> list[UpdateMetadataRequestPartition]:
        """Return the states of partitions of a topic; none while it is being deleted.

        A new controller does this for all partitions and for each broker, so what is rare is asked for once a topic.
        """
        state = self._state
        if state.is_deleting(topic.name):
            return []
        has_failed_dirs, is_moving = any(state.offline_replicas.values()), bool(state.finishing)
        rows = []
        for topic_partition in partitions:
            leadership = topic.leadership.get(topic_partition.partition)
            assignment = topic.assignments.get(topic_partition.partition)
            if is_moving:
                assignment = state.effective_assignment(topic_partition)
            if assignment is None or leadership is None:
                continue
            replicas, offline = assignment.replicas, []
            if has_failed_dirs or not reachable.issuperset(replicas):
                offline = [
                    broker
                    for broker in replicas
                    if not state.is_online(broker, topic_partition, or_leaving=True)
                ]
            node, partition_epoch = leadership
            rows.append(
                UpdateMetadataRequestPartition(
                    partition_index=topic_partition.partition,
                    controller_epoch=node.controller_epoch,
                    leader=node.leader,
                    leader_epoch=node.leader_epoch,
                    isr=list(node.in_sync_replicas),
                    zk_version=partition_epoch,
                    replicas=list(replicas),
                    offline_replicas=offline,
                )
            )
        return rows

    def _brokers(self) -> Iterator[UpdateMetadataRequestBroker]:
        # Suspects stay in the list while they are registered: a client drops all that it has in progress with a broker
        # that vanishes (librdkafka loses a second by it), and a suspect leads nothing any more.
        for broker, live in sorted(self._state.brokers.items()):
            yield UpdateMetadataRequestBroker(
                id=broker,
                rack=live.rack,
                endpoints=[
                    UpdateMetadataRequestEndpoint(
                        port=endpoint.port,
                        host=endpoint.host,
                        listener=endpoint.listener,
                        security_protocol=_SECURITY_PROTOCOLS.get(endpoint.protocol, 0),
                    )
                    for endpoint in live.endpoints
                ],
            )

    # -- StopReplica

    def stop_replica(self, pending: PendingUpdates) -> StopReplicaRequest:
        """Make the request that stops replicas."""
        topics: dict[str, StopReplicaRequestTopicState] = {}
        for topic_partition, stop in sorted(pending.stops.items()):
            topic = topics.get(topic_partition.topic)
            if topic is None:
                topic = topics[topic_partition.topic] = StopReplicaRequestTopicState(
                    topic_name=topic_partition.topic
                )
            topic.partition_states.append(
                StopReplicaRequestPartition(
                    partition_index=topic_partition.partition,
                    leader_epoch=stop.leader_epoch,
                    delete_partition=stop.deletes,
                )
            )
        return self._signed(StopReplicaRequest(topic_states=list(topics.values())))


def _by_topic(
    partitions: Iterable[TopicPartition],
) -> Iterator[tuple[str, Iterator[TopicPartition]]]:
    """Yield topics in order, with their partitions in order."""
    return groupby(sorted(partitions), key=itemgetter(0))


def _topic(
    topics: dict[str, UpdateMetadataRequestTopic], name: str, topic_id: TopicId
) -> UpdateMetadataRequestTopic:
    topic = topics.get(name)
    if topic is None:
        topic = topics[name] = UpdateMetadataRequestTopic(topic_name=name, topic_id=topic_id)
    return topic


def leader_and_isr_errors(
    response: LeaderAndIsrResponse, names: dict[TopicId, str]
) -> dict[TopicPartition, ErrorCode]:
    """Return a broker's error for each partition; `names` are of the topics in the request."""
    errors: dict[TopicPartition, ErrorCode] = {}
    for row in response.partition_errors:
        topic_partition = TopicPartition(row.topic_name, row.partition_index)
        errors[topic_partition] = ErrorCode.of(row.error_code)
    for topic in response.topics:
        name = names.get(TopicId(bytes(topic.topic_id)))
        for row in topic.partition_errors if name is not None else ():
            topic_partition = TopicPartition(name or "", row.partition_index)
            errors[topic_partition] = ErrorCode.of(row.error_code)
    return errors


def topic_names_in(request: LeaderAndIsrRequest) -> dict[TopicId, str]:
    """Return the names of the topics of a request, by id."""
    return {
        TopicId(bytes(topic.topic_id)): topic.topic_name
        for topic in request.topic_states
        if topic.topic_id != NO_TOPIC_ID
    }
