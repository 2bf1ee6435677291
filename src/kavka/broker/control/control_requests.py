"""Control requests of the controller to this broker: LeaderAndIsr, StopReplica and UpdateMetadata.

    LeaderAndIsr    partition by partition, only in newer leader epochs
    StopReplica     perhaps with the log
    UpdateMetadata  all live brokers, and the states of some partitions

Requests are applied one after another. `control_request_check` checks those that come over the network. A request
of an older controller is refused here, too (STALE_CONTROLLER_EPOCH), since a newer one may have sent one meanwhile,
and so is one to an older registration of this broker (STALE_BROKER_EPOCH): a broker epoch is the czxid of its
registration.

Once a controller speaks, the metadata cache has its topics and brokers from here; besides, `Broker` enters itself,
`partition_subscribers` takes away the leader of a log that failed here, and fetchers mark leaders that they cannot
reach as unreachable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kavka.broker.context import BrokerContext
from kavka.broker.control.control_request_messages import (
    RequestedPartitionState,
    TopicStates,
    leader_and_isr_response,
    live_broker,
    requested_states,
    stopped_replicas,
    topic_states,
)
from kavka.broker.control.dynamic_configs import DynamicConfigs
from kavka.broker.control.topic_updates import LEADER_DURING_DELETE, is_sensible, updated_topic
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.requests.pace import Pace, Slices
from kavka.core.controller.topics import bad_name
from kavka.errors import ErrorCode
from kavka.ids import (
    NO_TOPIC_ID,
    BrokerId,
    TopicId,
    TopicPartition,
    are_other_topics,
)
from kavka.wire.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from kavka.wire.messages.stop_replica import (
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaResponsePartition,
)
from kavka.wire.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataRequestPartition,
    UpdateMetadataResponse,
)
from kavka.wire.stored import znodes

log = logging.getLogger(__name__)

_AT_ONCE = 64


class MetadataSubscriber(Protocol):
    """A part that is notified when the metadata cache has changed: the coordinators of each kind."""

    def topics_deleted(self, topics: tuple[str, ...]) -> None:
        """Note that topics are gone."""
        ...

    def metadata_changed(self) -> None:
        """Note that leaders, or brokers, are others than before."""
        ...


class ControlRequests:
    """Applies control requests."""

    def __init__(
        self,
        context: BrokerContext,
        slices: Slices,
        replica_manager: ReplicaManager,
        dynamic_configs: DynamicConfigs,
        *,
        coordinators: Mapping[str, MetadataSubscriber],
        on_brokers_known: Callable[[], None],
    ) -> None:
        """Begin without a controller.

        `coordinators` are those that there are so far, by topic. `on_brokers_known` is called when the controller has
        said which brokers live, and where.
        """
        self._context = context
        self._slices = slices
        self._replica_manager = replica_manager
        self._dynamic_configs = dynamic_configs
        self._coordinators = coordinators
        self._on_brokers_known = on_brokers_known
        self._lock = asyncio.Lock()
        self.controller_epoch = -1
        """The newest that was learned of."""

    # -- checks of the sender

    def _refusal(self, controller_id: int, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """Check the epochs of a request. The controller may know a newer registration than this broker does."""
        if 0 <= broker_epoch < self._context.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            log.warning(
                "control request of a stale controller refused controller=%d epoch=%d newest=%d",
                controller_id,
                controller_epoch,
                self.controller_epoch,
            )
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        return ErrorCode.NONE

    # -- LeaderAndIsr

    async def leader_and_isr(
        self, request: LeaderAndIsrRequest, version: int = 7
    ) -> LeaderAndIsrResponse:
        """Lead and follow as requested. A request of any type may be incomplete: nothing is deleted."""
        async with self._lock:
            error = self._refusal(
                request.controller_id, request.controller_epoch, request.broker_epoch
            )
            if error is not ErrorCode.NONE:
                return LeaderAndIsrResponse(error_code=error)
            pace = self._slices.pace()
            partition_states = []
            for partition_state in requested_states(request):
                partition_states.append(partition_state)
                if pace.is_over():
                    await pace.rest()
            await self._load_topic_configs(
                (each.topic_partition.topic, each.state.topic_id) for each in partition_states
            )
            own = self._context.broker_id
            # Leaders first: followers need them.
            partition_states.sort(key=lambda partition_state: partition_state.state.leader != own)
            outcomes = await self._apply_all(partition_states)
            return await leader_and_isr_response(partition_states, outcomes, version, pace)

    async def _apply_all(self, partition_states: list[RequestedPartitionState]) -> list[ErrorCode]:
        """Apply some at a time: new logs are created together."""
        outcomes: list[ErrorCode] = []
        for at in range(0, len(partition_states), _AT_ONCE):
            some = partition_states[at : at + _AT_ONCE]
            if any(partition_state.is_new for partition_state in some):
                outcomes += await asyncio.gather(*map(self._apply, some))
            else:
                outcomes += [await self._apply(partition_state) for partition_state in some]
                await asyncio.sleep(0)
        return outcomes

    async def _apply(self, partition_state: RequestedPartitionState) -> ErrorCode:
        if (
            partition_state.topic_partition.partition < 0
            or bad_name(partition_state.topic_partition.topic) is not None
        ):
            return ErrorCode.INVALID_TOPIC_EXCEPTION  # its directory could be anywhere
        if self._context.broker_id not in partition_state.state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            code = await self._replica_manager.make_leader_or_follower(
                partition_state.topic_partition,
                partition_state.state,
                is_new=partition_state.is_new,
            )
        except OSError as error:
            log.error(
                "control request failed on an offline log directory partition=%s reason=%s",
                partition_state.topic_partition,
                error,
            )
            code = ErrorCode.KAFKA_STORAGE_ERROR
        except Exception:
            # A fault in one partition must not keep all others from being led.
            log.exception("control request failed partition=%s", partition_state.topic_partition)
            code = ErrorCode.UNKNOWN_SERVER_ERROR
        if code not in (ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH):
            log.warning(
                "control request refused partition=%s error=%s",
                partition_state.topic_partition,
                code.name,
            )
        return code

    async def _load_topic_configs(self, topics: Iterable[tuple[str, TopicId]]) -> None:
        """Read the overrides of topics that are new on this broker, also if an earlier one had the name.

        Raise ConnectionError when they stay unknown: the controller sends the request again.
        """
        unknown = [each for each in dict.fromkeys(topics) if not self._has_topic_configs(*each)]
        for topic, topic_id in unknown:
            stored = await self._dynamic_configs.stored(znodes.config_path("topics", topic))
            self._dynamic_configs.topic_configured(topic, stored or {}, topic_id)

    def _has_topic_configs(self, topic: str, topic_id: TopicId) -> bool:
        """Return whether the cached settings of this name belong to this topic.

        Without ids, the topic that is shown is taken for it: it would be gone if it had been deleted.
        """
        effective_configs = self._context.effective_configs
        known_id = effective_configs.topic_id(topic)
        if NO_TOPIC_ID in (known_id, topic_id):
            return effective_configs.knows(topic) and topic in self._context.metadata.topics
        return known_id == topic_id

    # -- StopReplica

    async def stop_replica(
        self, request: StopReplicaRequest, version: int = 4
    ) -> StopReplicaResponse:
        """Stop replicas, and delete them if so."""
        async with self._lock:
            error = self._refusal(
                request.controller_id, request.controller_epoch, request.broker_epoch
            )
            if error is not ErrorCode.NONE:
                return StopReplicaResponse(error_code=error)
            stops, replica_manager = (
                list(stopped_replicas(request, version)),
                self._replica_manager,
            )
            rows = []
            for at in range(0, len(stops), _AT_ONCE):
                some = stops[at : at + _AT_ONCE]
                codes = await asyncio.gather(
                    *(
                        replica_manager.stop(topic_partition, epoch, delete=delete)
                        for topic_partition, epoch, delete in some
                    )
                )
                rows += [
                    StopReplicaResponsePartition(
                        topic_name=topic_partition.topic,
                        partition_index=topic_partition.partition,
                        error_code=code,
                    )
                    for (topic_partition, _epoch, _delete), code in zip(some, codes, strict=True)
                ]
            return StopReplicaResponse(partition_errors=rows)

    # -- UpdateMetadata

    async def update_metadata(
        self, request: UpdateMetadataRequest, version: int = 8
    ) -> UpdateMetadataResponse:
        """Show clients the live brokers as they are now, and what has changed about topics."""
        async with self._lock:
            error = self._refusal(
                request.controller_id, request.controller_epoch, request.broker_epoch
            )
            if error is not ErrorCode.NONE:
                return UpdateMetadataResponse(error_code=error)
            pace = self._slices.pace()
            changes = await topic_states(request, pace)
            if not is_sensible(changes, self._context.metadata.topics):
                log.warning("metadata refused controller=%d reason=index", request.controller_id)
                return UpdateMetadataResponse(error_code=ErrorCode.INVALID_REQUEST)
            await self._load_topic_configs(
                (topic, topic_id)
                for topic, (topic_id, states) in changes.items()
                if any(state.leader != LEADER_DURING_DELETE for state in states)
            )
            metadata = self._context.metadata
            known_brokers = metadata.brokers.keys()
            self._put_brokers(request, version)
            await self._put_topics(changes, pace)
            metadata.changed()
            for topic, (topic_id, states) in changes.items():
                await self._remove_partitions(topic, topic_id, states)
                if pace.is_over(len(states)):
                    await pace.rest()
            self._on_brokers_known()
            self._replica_manager.metadata_changed(
                (
                    TopicPartition(topic, state.partition_index)
                    for topic, (_, states) in changes.items()
                    for state in states
                ),
                are_brokers_others=known_brokers != metadata.brokers.keys(),
            )
            for coordinators in self._coordinators.values():
                coordinators.metadata_changed()
            return UpdateMetadataResponse(error_code=ErrorCode.NONE)

    def _put_brokers(self, request: UpdateMetadataRequest, version: int) -> None:
        """Take the controller and the live brokers into the metadata cache."""
        metadata, own_epoch = self._context.metadata, self._context.broker_epoch
        metadata.controller_id = BrokerId(request.controller_id)
        metadata.brokers = {
            BrokerId(live.id): live_broker(
                live, version, own_epoch if live.id == self._context.broker_id else -1
            )
            for live in request.live_brokers
        }

    async def _put_topics(self, changes: TopicStates, pace: Pace) -> None:
        """Take changes of topics into the metadata cache; notify the coordinators of those that are gone."""
        gone = []
        for topic, (topic_id, states) in changes.items():
            if self._put_topic(topic, topic_id, states):
                gone.append(topic)
            if pace.is_over(len(states)):
                await pace.rest()
        if gone:
            for coordinators in self._coordinators.values():
                coordinators.topics_deleted(tuple(gone))

    async def _remove_partitions(
        self, topic: str, topic_id: TopicId, states: list[UpdateMetadataRequestPartition]
    ) -> None:
        """Delete replicas that were moved away from here while the controller could not reach this broker.

        It got neither LeaderAndIsr nor StopReplica, so an old leader would continue to serve.
        """
        own = self._context.broker_id
        for state in states:
            if own in state.replicas or state.leader in (own, LEADER_DURING_DELETE):
                continue  # a leader is never one of the removed replicas
            topic_partition = TopicPartition(topic, state.partition_index)
            replica = self._replica_manager.find(topic_partition)
            if isinstance(replica, ErrorCode):
                continue
            partition = replica.partition
            is_other = are_other_topics(topic_id, partition.topic_id)
            if is_other or state.leader_epoch <= partition.leader_epoch:
                continue
            log.info(
                "replica was moved away partition=%s replicas=%s", topic_partition, state.replicas
            )
            await self._replica_manager.stop(topic_partition, state.leader_epoch, delete=True)

    def _put_topic(
        self, name: str, topic_id: TopicId, states: list[UpdateMetadataRequestPartition]
    ) -> bool:
        """Change one topic; return whether the earlier topic of this name is gone."""
        metadata = self._context.metadata
        known = metadata.topics.get(name)
        is_replaced = known is not None and are_other_topics(known.topic_id, topic_id)
        if is_replaced:
            metadata.remove_topic(name)
            known = None
        topic = updated_topic(name, topic_id, states, known)
        if topic is None:
            metadata.remove_topic(name)
            self._context.effective_configs.put_topic(name, None)
            return known is not None
        metadata.put_topic(topic)
        return is_replaced
