"""Reassignment of partitions (KIP-455), step by step, so that any controller can continue from the znodes.

    origin, target given
      -> write replicas = target + origin, adding, removing; raise the leader epoch for all of them       (begin)
      -> new replicas fetch, the leader adds them to the in-sync set through AlterPartition
      -> the in-sync set holds the whole target and one of it can lead:
         leader and in-sync set are of the target, LeaderAndIsr for it; StopReplica for the others         (finish)
      -> the others that can be reached have answered: write replicas = target                              (conclude)

Until the last write the znode names the replicas to delete: a new controller asks again. Cancelling is a reassignment
to the origin, where the replicas exist already, in one step; it is refused when none of them is in sync.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kavka.core.controller import election
from kavka.core.controller.events import (
    ControlResponseReceived,
    ListReassignmentsRequested,
    ReassignmentNodeRead,
    ReassignmentRequested,
)
from kavka.core.controller.leadership import stop_replicas, update_leadership
from kavka.core.controller.records import ReassignmentNodeWritten
from kavka.core.controller.replies import (
    DONE,
    OngoingReassignment,
    PartitionsReply,
    ReassignmentsReply,
    Verdict,
)
from kavka.core.controller.state import Assignment, FinishingReassignment
from kavka.core.controller.step import Step
from kavka.core.controller.topics import shown_brokers, too_many_replicas
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition

_NOTHING_TO_STOP = Verdict(
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS.message
)
_NO_PARTITION = Verdict(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")


# -- asked for


def request(step: Step, event: ReassignmentRequested) -> None:
    """Begin, change or call off moves; the newest wish counts, also before the znode's."""
    verdicts = {
        topic_partition: _judge(step, topic_partition, target)
        for topic_partition, target in event.targets.items()
    }
    accepted = [topic_partition for topic_partition, verdict in verdicts.items() if verdict is DONE]
    if any(topic_partition in step.state.reassignment_node for topic_partition in accepted):
        _remove_from_znode(step, accepted)
    for topic_partition in accepted:
        _start(step, topic_partition, event.targets[topic_partition])
    step.reply(event.token, PartitionsReply(verdicts))


def request_by_znode(step: Step, event: ReassignmentNodeRead) -> None:
    """Begin what `/admin/reassign_partitions` asks for; what cannot be done is taken out of it."""
    step.state.reassignment_node = dict(event.targets or {})
    over = []
    for topic_partition, target in step.state.reassignment_node.items():
        refused = _invalid_replicas(target) or _loses_all_replicas(step, topic_partition, target)
        if refused or _judge_partition(step, topic_partition) is not DONE:
            over.append(topic_partition)
            continue
        assignment = step.assignment(topic_partition)
        if assignment is not None and assignment.target != target:
            _start(step, topic_partition, target)
        elif _is_moving(step, topic_partition):
            # Its begin may have been written without the new leader epoch: that write had a version conflict.
            _advance(step, topic_partition)
        if not _is_moving(step, topic_partition):
            over.append(topic_partition)
    if over:
        _remove_from_znode(step, over)


def _is_moving(step: Step, topic_partition: TopicPartition) -> bool:
    assignment = step.assignment(topic_partition)
    return assignment is not None and assignment.is_reassigning


def _judge(step: Step, topic_partition: TopicPartition, target: Sequence[int] | None) -> Verdict:
    """Refuse as Kafka does, in its order."""
    assignment = step.assignment(topic_partition) or Assignment(())
    if target is None:
        # The znode's request was cancelled by the first try of this event, which had a version conflict.
        is_under_way = assignment.is_reassigning or topic_partition in step.state.reassignment_node
        if not is_under_way or topic_partition in step.state.finishing:
            return _NOTHING_TO_STOP
        problem = _loses_all_replicas(step, topic_partition, assignment.origin)
        if problem is not None:
            return Verdict(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        return _judge_partition(step, topic_partition)
    problem = _invalid_replicas(target)
    if problem is None:
        adding = assignment.reassign_to(target).adding
        live = step.state.live
        if not set(adding) <= set(live):
            problem = (
                "Replica assignment has brokers that are not alive. Replica list: "
                f"{shown_brokers(adding)}, live broker list: {live}"
            )
    if problem is None:
        problem = _loses_all_replicas(step, topic_partition, target)
    if problem is not None:
        return Verdict(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    return _judge_partition(step, topic_partition)


def _loses_all_replicas(
    step: Step, topic_partition: TopicPartition, target: Sequence[int]
) -> str | None:
    """Refuse a new target that would drop all replicas in sync, which Kafka allows."""
    assignment, node = step.assignment(topic_partition), step.node(topic_partition)
    if assignment is None or node is None:
        return None
    kept = assignment.reassign_to(target).replicas
    if set(node.in_sync_replicas) <= set(assignment.replicas) - set(kept):
        return (
            f"The replicas {list(kept)} would be without any of the in-sync replicas "
            f"{node.in_sync_replicas}."
        )
    return None


def _judge_partition(step: Step, topic_partition: TopicPartition) -> Verdict:
    if topic_partition.topic in step.state.deletions or step.assignment(topic_partition) is None:
        return _NO_PARTITION
    return DONE


def _invalid_replicas(target: Sequence[int]) -> str | None:
    if not target:
        return "Empty replica list specified in partition reassignment."
    problem = too_many_replicas(target)
    if problem is not None:
        return problem
    if len(set(target)) != len(target):
        shown = shown_brokers(target)
        return f"Duplicate replica ids in partition reassignment replica list: {shown}"
    if min(target) < 0:
        shown = shown_brokers(target)
        return f"Invalid broker id in partition reassignment replica list: {shown}"
    return None


def list_reassignments(step: Step, event: ListReassignmentsRequested) -> None:
    """Answer with the moves in progress."""
    asked = step.state.topic_partitions() if event.partitions is None else event.partitions
    moving: dict[TopicPartition, OngoingReassignment] = {}
    for topic_partition in asked:
        assignment = step.assignment(topic_partition)
        if assignment is not None and assignment.is_reassigning:
            moving[topic_partition] = OngoingReassignment(*assignment)
    step.reply(event.token, ReassignmentsReply(moving))


# -- the steps


def _start(step: Step, topic_partition: TopicPartition, target: Sequence[int] | None) -> None:
    current = step.assignment(topic_partition)
    assert current is not None
    assignment = current.reassign_to(current.origin if target is None else target)
    step.state.finishing.pop(topic_partition, None)
    if assignment != current:
        step.put_assignment(topic_partition, assignment)
    _advance(step, topic_partition)
    unneeded = [b for b in current.replicas if b not in assignment.replicas]
    update_leadership(step, topic_partition)  # those that are not needed are in sync no longer
    stop_replicas(step, topic_partition, unneeded)


def _advance(step: Step, topic_partition: TopicPartition) -> None:
    """Finish a move, or send all replicas the assignment as it is."""
    if is_complete(step, topic_partition):
        finish(step, topic_partition)
        return
    node = step.node(topic_partition)
    if node is not None:
        step.put_node(topic_partition, election.led_by(node, node.leader, node.in_sync_replicas))


def is_complete(step: Step, topic_partition: TopicPartition) -> bool:
    """Return whether all of the target are in sync, and one of them can lead.

    An assignment that adds and removes no replica is complete at once, with any replica offline.
    """
    assignment, node = step.assignment(topic_partition), step.node(topic_partition)
    if assignment is None or node is None:
        return False
    if not assignment.is_reassigning:
        return True
    target, is_online = assignment.target, step.online(topic_partition)
    return set(target) <= set(node.in_sync_replicas) and any(is_online(b) for b in target)


def finish(step: Step, topic_partition: TopicPartition) -> None:
    """Restrict leader and in-sync set to the target replicas, delete the others, and conclude."""
    assignment = step.assignment(topic_partition)
    assert assignment is not None
    if not assignment.is_reassigning:
        _lead_by_target(step, topic_partition)
    elif topic_partition not in step.state.finishing:
        leader_epoch = _lead_by_target(step, topic_partition)
        step.state.finishing[topic_partition] = FinishingReassignment(
            assignment.target, leader_epoch
        )
    _finish_reassignment(step, topic_partition)


def _lead_by_target(step: Step, topic_partition: TopicPartition) -> int:
    """Elect a leader among the target replicas, with an in-sync set of them; return the leader epoch."""
    assignment, node = step.assignment(topic_partition), step.node(topic_partition)
    assert assignment is not None
    assert node is not None
    target, is_online = assignment.target, step.online(topic_partition)
    after = election.led_by(node, node.leader, node.in_sync_replicas)
    if node.leader not in target or not is_online(node.leader):
        # In a mere reordering perhaps no replica can lead: it stays as it is until one returns.
        after = election.elect_for_reassignment(node, target, is_online) or after
    rest = [b for b in after.in_sync_replicas if b in target]
    return step.put_node(
        topic_partition, after._replace(in_sync_replicas=rest or after.in_sync_replicas)
    )


def _finish_reassignment(step: Step, topic_partition: TopicPartition) -> None:
    """Write the target alone, unless a reachable broker has yet to delete its replica."""
    assignment = step.assignment(topic_partition)
    assert assignment is not None
    finishing = step.state.finishing.get(
        topic_partition, FinishingReassignment(assignment.target, 0)
    )
    leaving = [b for b in assignment.removing if step.state.is_reachable(b)]
    stop_replicas(step, topic_partition, [b for b in leaving if b not in finishing.requested])
    finishing.requested.update(leaving)
    if not set(leaving) <= finishing.acknowledged:
        return
    if assignment.is_reassigning:
        step.put_assignment(topic_partition, Assignment(assignment.target))
    if topic_partition in step.state.reassignment_node:
        _remove_from_znode(step, [topic_partition])


def note_deleted(step: Step, event: ControlResponseReceived) -> list[TopicPartition]:
    """Record which replicas of moved partitions are deleted, or cannot be; return the moves that can continue."""
    concerned = []
    for topic_partition in event.deleted:
        finishing = step.state.finishing.get(topic_partition)
        if finishing is not None and event.broker in finishing.requested:
            finishing.acknowledged.add(event.broker)
            concerned.append(topic_partition)
    return concerned


def interrupt(step: Step, brokers: Collection[int]) -> None:
    """Wait no longer for brokers that went away, and ask them once more if they are back before the end."""
    for finishing in step.state.finishing.values():
        finishing.requested.difference_update(brokers)
        finishing.acknowledged.difference_update(brokers)


def resume(step: Step, partitions: Iterable[TopicPartition], brokers: Collection[int]) -> None:
    """Continue with moves that wait for one of these brokers."""
    for topic_partition in partitions:
        assignment = step.assignment(topic_partition)
        if assignment is None or not assignment.is_reassigning:
            continue
        if any(broker in brokers for broker in assignment.target):
            _advance(step, topic_partition)


def complete(step: Step, partitions: Iterable[TopicPartition]) -> None:
    """Finish the moves that can be finished."""
    for topic_partition in partitions:
        assignment = step.assignment(topic_partition)
        if assignment is None or not assignment.is_reassigning:
            continue
        if topic_partition in step.state.finishing or is_complete(step, topic_partition):
            finish(step, topic_partition)


def _remove_from_znode(step: Step, partitions: Collection[TopicPartition]) -> None:
    """Take partitions out of `/admin/reassign_partitions`."""
    remaining: Mapping[TopicPartition, tuple[int, ...]] = step.state.reassignment_node
    for record in step.after:
        if isinstance(record, ReassignmentNodeWritten):
            remaining = record.remaining
            step.after.remove(record)
            break
    kept = {w: target for w, target in remaining.items() if w not in partitions}
    step.after.append(ReassignmentNodeWritten(kept))
