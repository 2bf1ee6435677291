"""Topics that are created, grown and deleted, by request or because the registry shows it."""

from __future__ import annotations

from kavka.core.controller import election
from kavka.core.controller.broker_updates import EPOCH_DURING_DELETE, BrokerUpdate, ReplicaStop
from kavka.core.controller.events import (
    ControlResponseReceived,
    CreatePartitionsRequested,
    CreateTopicRequested,
    DeleteTopicRequested,
    DeletionsMarked,
    TopicsChanged,
)
from kavka.core.controller.leadership import update_leaderships
from kavka.core.controller.records import (
    DeletionDropped,
    DeletionMarked,
    TopicCreated,
    TopicRemoved,
)
from kavka.core.controller.replies import (
    DONE,
    TopicReply,
    Verdict,
)
from kavka.core.controller.state import Assignment, Deletion, Topic
from kavka.core.controller.step import Step
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, TopicPartition, are_other_topics


def create(step: Step, event: CreateTopicRequested) -> None:
    """Write a topic and the first states of its partitions together: one sync of the registry."""
    topic = event.topic
    if topic.name in step.state.topics:
        message = f"Topic '{topic.name}' already exists."
        verdict = Verdict(ErrorCode.TOPIC_ALREADY_EXISTS, message)
        step.reply(event.token, TopicReply(verdict))
        return
    assignments = {p: Assignment(tuple(topic.assignment[p])) for p in sorted(topic.assignment)}
    step.before.append(TopicCreated(topic.name, topic.topic_id, assignments, topic.config))
    for partition, assignment in assignments.items():
        _elect_first(step, TopicPartition(topic.name, partition), assignment)
    step.reply(event.token, TopicReply(DONE))


def _elect_first(step: Step, topic_partition: TopicPartition, assignment: Assignment) -> None:
    node = election.elect_first(assignment.replicas, step.online(topic_partition), step.epoch)
    if node is not None:
        step.put_node(topic_partition, node)


def add_partitions(step: Step, event: CreatePartitionsRequested) -> None:
    """Add partitions."""
    topic = step.state.topics.get(event.topic)
    if topic is None or event.topic in step.state.deletions:
        verdict = Verdict(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{event.topic}' does not exist."
        )
        step.reply(event.token, TopicReply(verdict))
        return
    if any(assignment.is_reassigning for assignment in topic.assignments.values()):
        verdict = Verdict(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            f"A partition reassignment is in progress for the topic '{event.topic}'.",
        )
        step.reply(event.token, TopicReply(verdict))
        return
    for partition in sorted(event.added):
        topic_partition = TopicPartition(event.topic, partition)
        if partition not in topic.assignments:  # else it was added by the same wish before
            assignment = Assignment(tuple(event.added[partition]))
            step.put_assignment(topic_partition, assignment)
            _elect_first(step, topic_partition, assignment)
    step.reply(event.token, TopicReply(DONE))


def adopt_topics(step: Step, event: TopicsChanged) -> list[TopicPartition]:
    """Apply topics and partitions that another broker has written to the registry, or that are gone from it.

    Return the partitions with states of another writer, or with states that could not be decoded for a while: their
    replicas have other states, or have missed some.
    """
    foreign = []
    for name in event.removed:
        topic = step.state.topics.get(name)
        if topic is not None:
            _send_topic_deleted(step, topic)
            step.state.remove_topic(name)
            _cancel_deletion(step, name)
    for name in event.unreadable:
        step.state.forget_topic(name)
    for name, read in event.topics.items():
        topic = step.state.topics.get(name)
        if topic is not None and are_other_topics(topic.topic_id, read.node.topic_id):
            _cancel_deletion(step, name)
        known = {} if topic is None else dict(topic.leadership)
        step.state.put_topic(name, read)
        for partition, state in read.states.items():
            if known.get(partition) != state:
                foreign.append(TopicPartition(name, partition))
                step.state.finishing.pop(foreign[-1], None)
    return foreign


def returned(step: Step, event: TopicsChanged) -> dict[int, set[TopicPartition]]:
    """Return, by broker, in-sync replicas of topics that could not be read while the broker died and came back."""
    away: dict[int, set[TopicPartition]] = {}
    for name, read in event.topics.items():
        if name not in step.state.unread:
            continue
        epochs = step.state.unread.pop(name)
        for partition, (node, _version) in read.states.items():
            for broker in node.in_sync_replicas:
                live = step.state.brokers.get(broker)
                if live is not None and live.epoch != epochs.get(broker):
                    away.setdefault(broker, set()).add(TopicPartition(name, partition))
    return away


def change(step: Step, event: TopicsChanged) -> None:
    """Elect the leaders of topics and partitions that were taken up."""
    for name, read in event.topics.items():
        topic = step.state.topics.get(name)
        if topic is None:
            continue
        if read.node.topic_id == NO_TOPIC_ID:
            name_topic(step, name)
        update_leaderships(step, topic.partitions())


def name_topic(step: Step, name: str) -> None:
    """Write an id for a topic without one, as written by Apache Kafka's tools before 2.8 (KIP-516).

    A topic that lost its id, to such a tool, gets it back. In-sync sets change by ids only, from AlterPartition 2 on.
    """
    topic_id = step.state.topics[name].topic_id
    if topic_id == NO_TOPIC_ID:
        topic_id = step.settings.new_topic_id()
    if topic_id != NO_TOPIC_ID:
        step.put_topic_id(name, topic_id)


# -- deletion


def request_deletion(step: Step, event: DeleteTopicRequested) -> None:
    """Mark a topic; the reply comes when it is gone, or cannot continue by itself."""
    topic = step.state.topics.get(event.topic)
    is_other = topic is not None and event.topic_id not in (NO_TOPIC_ID, topic.topic_id)
    if topic is None or is_other:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        step.reply(event.token, TopicReply(Verdict(code, code.message)))
    elif event.topic in step.state.deletions:
        step.state.deletions[event.topic].tokens.append(event.token)
    else:
        step.before.append(DeletionMarked(event.topic))
        step.state.waiting_deletions.setdefault(event.topic, []).append(event.token)


def marked(step: Step, event: DeletionsMarked) -> list[str]:
    """Apply requests for deletion that are in the registry; return the topics to delete."""
    taken_up = []
    for name in event.topics:
        if name in step.state.deletions:
            continue
        if name not in step.state.topics or not step.settings.allows_deletion:
            step.after.append(DeletionDropped(name))
        else:
            step.state.deletions[name] = Deletion()
            taken_up.append(name)
    return taken_up


def _cancel_deletion(step: Step, name: str) -> None:
    """Cancel the deletion of a topic that another writer removed: the next topic of that name is another one."""
    deletion = step.state.deletions.pop(name, None)
    if deletion is not None:
        _complete_deletion_requests(step, deletion)
        step.after.append(DeletionDropped(name))


def advance_deletion(step: Step, name: str) -> None:
    """Continue the deletion of a topic: stop its replicas, or remove it when all are deleted."""
    deletion, topic = step.state.deletions.get(name), step.state.topics.get(name)
    if deletion is None or topic is None:
        return
    if any(assignment.is_reassigning for assignment in topic.assignments.values()):
        _complete_deletion_requests(step, deletion)
        return
    if not deletion.has_begun:
        deletion.has_begun = True
        _send_topic_deleted(step, topic)
    waits = _stop_replicas(step, topic, deletion)
    if waits:
        _complete_deletion_requests(step, deletion)
    elif not deletion.requested:
        step.after.append(TopicRemoved(name))
        for token in deletion.tokens:  # they go with the deletion, when that is written
            step.reply(token, TopicReply(DONE))


def _stop_replicas(step: Step, topic: Topic, deletion: Deletion) -> bool:
    """Send StopReplica with deletion; return whether it waits for a broker that is unreachable or failed."""
    waits = False
    for topic_partition in topic.partitions():
        for broker in topic.assignments[topic_partition.partition].replicas:
            replica = (topic_partition.partition, broker)
            if replica in deletion.done or replica in deletion.requested:
                continue
            online = step.state.is_online(broker, topic_partition, or_leaving=True)
            if not online and step.settings.ignores_offline_replicas_on_delete:
                online = step.state.is_reachable(broker)
            if replica in deletion.failed or not online:
                waits = True
                continue
            deletion.requested.add(replica)
            stop = ReplicaStop(
                deletes=True, leader_epoch=EPOCH_DURING_DELETE, topic_id=topic.topic_id
            )
            step.update_brokers(BrokerUpdate((broker,), stops={topic_partition: stop}))
    return waits


def _send_topic_deleted(step: Step, topic: Topic) -> None:
    gone = dict.fromkeys(topic.partitions(), topic.topic_id)
    step.update_brokers(BrokerUpdate(tuple(step.state.reachable), deleted=gone))


def _complete_deletion_requests(step: Step, deletion: Deletion) -> None:
    """Answer waiting requests: the topic is gone, or will be as soon as its brokers are back."""
    for token in deletion.tokens:
        step.reply(token, TopicReply(DONE))
    deletion.tokens.clear()


def note_deleted(step: Step, event: ControlResponseReceived) -> list[str]:
    """Note deleted replicas; return the topics to continue with."""
    known = step.state.brokers.get(event.broker)
    if known is None or known.epoch != event.broker_epoch:
        return []
    concerned: dict[str, None] = {}
    for topic_partition, code in event.deleted.items():
        deletion = step.state.deletions.get(topic_partition.topic)
        replica = (topic_partition.partition, event.broker)
        if deletion is None or replica not in deletion.requested:
            continue
        deletion.requested.discard(replica)
        on_failed_disk = code is ErrorCode.KAFKA_STORAGE_ERROR
        is_over = on_failed_disk and step.settings.ignores_offline_replicas_on_delete
        is_done = is_over or code is ErrorCode.NONE
        (deletion.done if is_done else deletion.failed).add(replica)
        concerned[topic_partition.topic] = None
    return list(concerned)
