"""Brokers that come, go, come back as another process, refuse connections, lose a disk, or want to stop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kavka.core.controller import election, reassignment
from kavka.core.controller.broker_updates import BrokerUpdate
from kavka.core.controller.events import (
    BrokerCleared,
    BrokersChanged,
    BrokerSuspected,
    ControlledShutdownRequested,
    ControlResponseReceived,
    LogDirFailed,
)
from kavka.core.controller.leadership import stop_replicas, update_leadership, update_leaderships
from kavka.core.controller.replies import (
    ShutdownReply,
)
from kavka.core.controller.state import LiveBroker
from kavka.core.controller.step import Step
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition


def update_brokers(step: Step, event: BrokersChanged) -> None:
    """Apply the present registrations. A new epoch means that a broker died and returned: its leaderships move."""
    state = step.state
    now = {live.broker_id: live for live in event.brokers}
    came = [b for b in sorted(now) if b not in state.brokers]
    gone = [b for b in sorted(state.brokers) if b not in now]
    bounced = [b for b in sorted(now) if b in state.brokers and _is_newer(now[b], state.brokers[b])]
    moved = [
        b for b in now if b in state.brokers and b not in bounced and now[b] != state.brokers[b]
    ]
    step.returning = frozenset(bounced)
    # As in Kafka those that came back first: while others count as alive they leave the in-sync sets, so that one which
    # may have lost what it had not flushed does not lead because all others died in the same moment.
    for away in (bounced, gone):
        for broker in away:
            del state.brokers[broker]
            state.suspects.discard(broker)
        remove_brokers(step, away)
    for broker in (*came, *bounced, *moved):
        state.brokers[broker] = now[broker]
    add_brokers(step, sorted([*came, *bounced]))
    if came or gone or bounced or moved:
        step.update_brokers(BrokerUpdate(tuple(state.reachable), live_brokers=True))


def _is_newer(now: LiveBroker, before: LiveBroker) -> bool:
    return now.epoch > before.epoch


def suspect_broker(step: Step, event: BrokerSuspected) -> None:
    """Take a broker for dead that refuses connections; its registration stands."""
    state = step.state
    known = state.brokers.get(event.broker)
    if known is None or known.epoch != event.broker_epoch or event.broker in state.suspects:
        return
    state.suspects.add(event.broker)
    remove_brokers(step, [event.broker])
    step.update_brokers(BrokerUpdate(tuple(state.reachable), live_brokers=True))


def clear_suspicion(step: Step, event: BrokerCleared) -> None:
    """Mark a suspected broker as alive again and send it the full state."""
    state = step.state
    known = state.brokers.get(event.broker)
    if known is None or known.epoch != event.broker_epoch or event.broker not in state.suspects:
        return
    state.suspects.discard(event.broker)
    add_brokers(step, [event.broker])
    step.update_brokers(BrokerUpdate(tuple(state.reachable), live_brokers=True))


def remove_brokers(step: Step, brokers: Sequence[int]) -> None:
    """Move leaderships away from brokers that are not online any more, and take them out of in-sync sets."""
    for broker in brokers:
        step.state.offline_replicas.pop(broker, None)
        step.state.shutting_down.discard(broker)
        _interrupt_deletions(step, broker)
    reassignment.interrupt(step, brokers)
    update_leaderships(step, step.state.partitions_on(brokers))


def _interrupt_deletions(step: Step, broker: int) -> None:
    """Mark the deletions that a broker has not confirmed, so that they are requested again when it comes back."""
    for deletion in step.state.deletions.values():
        for kept in (deletion.requested, deletion.failed):
            kept.difference_update({replica for replica in kept if replica[1] == broker})


def add_brokers(step: Step, brokers: Sequence[int]) -> None:
    """Send new brokers the whole state, and elect them where only they can lead."""
    if not brokers:
        return
    state = step.state
    everything = list(state.topic_partitions())
    shown = tuple(
        topic_partition
        for topic_partition in everything
        if not state.is_deleting(topic_partition.topic)
    )
    deleted = {w: state.topics[w.topic].topic_id for w in everything if state.is_deleting(w.topic)}
    for gone in state.deleted_topics.values():
        deleted.update(gone)
    for broker in brokers:
        step.update_brokers(
            BrokerUpdate((broker,), _hosted(step, broker), shown, deleted, live_brokers=True)
        )
    partitions = step.state.partitions_on(brokers)
    others = tuple(broker for broker in state.reachable if broker not in brokers)
    online = tuple(
        topic_partition
        for topic_partition in partitions
        if not state.is_deleting(topic_partition.topic)
    )
    if others and online:  # their metadata has these replicas as offline
        step.update_brokers(BrokerUpdate(others, metadata=online))
    update_leaderships(step, partitions)
    reassignment.resume(step, partitions, brokers)


def _hosted(step: Step, broker: int) -> dict[TopicPartition, bool]:
    """Return the update with all replicas of a broker; none of them is new to it."""
    mine = step.state.partitions_on([broker])
    return {
        topic_partition: False
        for topic_partition in mine
        if not step.state.is_deleting(topic_partition.topic)
    }


# -- log directories


def probe_log_dirs(step: Step, event: LogDirFailed) -> None:
    """Send LeaderAndIsr to brokers, whose responses show which of their log directories still work."""
    for broker in event.brokers:
        if step.state.is_reachable(broker):
            step.update_brokers(BrokerUpdate((broker,), _hosted(step, broker)))


def note_log_dirs(step: Step, event: ControlResponseReceived) -> None:
    """Record the replicas on failed directories, as the response to LeaderAndIsr has them."""
    known = step.state.brokers.get(event.broker)
    if known is None or known.epoch != event.broker_epoch or not event.leader_and_isr:
        return
    failed = ErrorCode.KAFKA_STORAGE_ERROR
    offline = {
        topic_partition for topic_partition, code in event.leader_and_isr.items() if code is failed
    }
    working = {
        topic_partition
        for topic_partition, code in event.leader_and_isr.items()
        if code is ErrorCode.NONE
    }
    before = step.state.offline_replicas.get(event.broker, set())
    after = (before - working) | offline
    if after == before:
        return
    step.state.offline_replicas[event.broker] = after
    update_leaderships(step, sorted(after ^ before))
    metadata = tuple(sorted(after ^ before))
    step.update_brokers(BrokerUpdate(tuple(step.state.reachable), metadata=metadata))


# -- controlled shutdown


def shut_down(step: Step, event: ControlledShutdownRequested) -> None:
    """Move leaderships away from a broker that wants to stop; answer with those that cannot move."""
    state = step.state
    known = state.brokers.get(event.broker)
    if known is None:
        step.reply(event.token, ShutdownReply(ErrorCode.BROKER_NOT_AVAILABLE))
        return
    if event.broker_epoch != known.epoch:
        step.reply(event.token, ShutdownReply(ErrorCode.STALE_BROKER_EPOCH))
        return
    state.shutting_down.add(event.broker)
    remaining = [w for w in _replicated_on(step, event.broker) if not _leave(step, w, event.broker)]
    step.reply(event.token, ShutdownReply(ErrorCode.NONE, tuple(remaining)))


def _replicated_on(step: Step, broker: int) -> Iterable[TopicPartition]:
    for topic_partition in step.state.partitions_on([broker]):
        assignment = step.assignment(topic_partition)
        if assignment is None or len(assignment.replicas) == 1:
            continue
        if (
            topic_partition.topic not in step.state.deletions
            and step.node(topic_partition) is not None
        ):
            yield topic_partition


def _leave(step: Step, topic_partition: TopicPartition, broker: int) -> bool:
    """Remove a broker from a partition's leadership and in-sync set; return False if no other replica can lead."""
    node, assignment = step.node(topic_partition), step.assignment(topic_partition)
    assert node is not None
    assert assignment is not None
    if node.leader == broker:
        moved = election.elect_for_controlled_shutdown(
            node,
            assignment.replicas,
            step.online(topic_partition, or_leaving=True),
            step.state.shutting_down,
        )
        if moved is None:
            return False
        step.put_node(topic_partition, moved)
        return True
    if broker in node.in_sync_replicas and len(node.in_sync_replicas) > 1:
        step.put_node(topic_partition, election.without(node, [broker]))
    stop_replicas(step, topic_partition, [broker], deletes=False)
    return True


def start_brokers(step: Step, away: Mapping[int, set[TopicPartition]]) -> None:
    """Start as controller: send the full state to all brokers, and elect leaders where needed.

    `away` are replicas, by broker, that may have less than the states say: they are taken for offline for a moment.
    """
    state = step.state
    _assume_log_lost(step, away)
    add_brokers(step, state.reachable)
    for topic_partition in state.topic_partitions():  # those without any replica that is online
        update_leadership(step, topic_partition)


def mark_returned(step: Step, away: Mapping[int, set[TopicPartition]]) -> None:
    """Repeat the return of brokers for replicas with states that could not be written."""
    _assume_log_lost(step, away)
    update_leaderships(step, sorted(set().union(*away.values())))


def _assume_log_lost(step: Step, away: Mapping[int, set[TopicPartition]]) -> None:
    """Move leaderships away from replicas that may have less than the states say, and take them out of in-sync sets."""
    if not away:
        return
    state = step.state
    step.returning = frozenset(away)
    offline = state.offline_replicas
    state.offline_replicas = {
        broker: offline.get(broker, set()) | away.get(broker, set())
        for broker in offline.keys() | away.keys()
    }
    update_leaderships(step, sorted(set().union(*away.values())))
    state.offline_replicas = offline
