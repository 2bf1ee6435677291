"""Moving partitions to other brokers (KIP-455), step by step, so that any controller can go on from the znodes.

    origin, target given
      -> write replicas = target + origin, adding, removing; raise the leader epoch; all of them obey     (begin)
      -> new replicas fetch, the leader adds them to the in-sync set through AlterPartition
      -> the in-sync set holds the whole target and one of it can lead:
         a leader and an in-sync set of the target, which obey as if they were all; the others delete      (finish)
      -> the others that can be reached have answered: write replicas = target                              (conclude)

Until the last write the znode names who has to delete: a controller that takes over asks again. Calling a move off is a
move to the origin, whose replicas are there already, in one step; it is refused when nobody of them is in sync.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kavka.core.controller import election
from kavka.core.controller.events import (
    OrderAnswered,
    ReassignmentAsked,
    ReassignmentNodeRead,
    ReassignmentsListed,
)
from kavka.core.controller.leadership import settle, stop_replicas
from kavka.core.controller.records import ReassignmentNodeWritten
from kavka.core.controller.replies import (
    DONE,
    Moving,
    PartitionsReply,
    ReassignmentsReply,
    Verdict,
)
from kavka.core.controller.state import Assignment, Finishing
from kavka.core.controller.step import Step
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition

_NOTHING_TO_STOP = Verdict(
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS.message
)
_NO_PARTITION = Verdict(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")


# -- asked for


def ask(step: Step, event: ReassignmentAsked) -> None:
    """Begin, change or call off moves; the newest wish counts, also before the znode's."""
    verdicts = {where: _judge(step, where, target) for where, target in event.targets.items()}
    accepted = [where for where, verdict in verdicts.items() if verdict is DONE]
    if any(where in step.state.reassignment_node for where in accepted):
        _strike(step, accepted)
    for where in accepted:
        _begin(step, where, event.targets[where])
    step.answer(event.token, PartitionsReply(verdicts))


def ask_by_node(step: Step, event: ReassignmentNodeRead) -> None:
    """Begin what `/admin/reassign_partitions` asks for; what cannot be done is taken out of it."""
    step.state.reassignment_node = dict(event.targets or {})
    over = []
    for where, target in step.state.reassignment_node.items():
        refused = _bad_list(target) or _loses_all(step, where, target)
        if refused or _judge_partition(step, where) is not DONE:
            over.append(where)
            continue
        assignment = step.assignment(where)
        if assignment is not None and assignment.target != target:
            _begin(step, where, target)
        elif _is_moving(step, where):
            # Its begin may have been written without the leader epoch that tells of it: the rest met another version.
            _go_on(step, where)
        if not _is_moving(step, where):
            over.append(where)
    if over:
        _strike(step, over)


def _is_moving(step: Step, where: TopicPartition) -> bool:
    assignment = step.assignment(where)
    return assignment is not None and assignment.is_reassigning


def _judge(step: Step, where: TopicPartition, target: Sequence[int] | None) -> Verdict:
    """Refuse as Kafka does, in its order."""
    assignment = step.assignment(where) or Assignment(())
    if target is None:
        # What the znode still asks for was called off by the first try of this event, whose rest met another version.
        is_under_way = assignment.is_reassigning or where in step.state.reassignment_node
        if not is_under_way or where in step.state.finishing:
            return _NOTHING_TO_STOP
        problem = _loses_all(step, where, assignment.origin)
        if problem is not None:
            return Verdict(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        return _judge_partition(step, where)
    problem = _bad_list(target)
    if problem is None:
        adding = assignment.reassign_to(target).adding
        live = step.state.live
        if not set(adding) <= set(live):
            problem = (
                f"Replica assignment has brokers that are not alive. Replica list: {list(adding)}, "
                f"live broker list: {live}"
            )
    if problem is None:
        problem = _loses_all(step, where, target)
    if problem is not None:
        return Verdict(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    return _judge_partition(step, where)


def _loses_all(step: Step, where: TopicPartition, target: Sequence[int]) -> str | None:
    """Say so when another target would let go all replicas that are in sync. (Kafka lets that happen.)"""
    assignment, node = step.assignment(where), step.node(where)
    if assignment is None or node is None:
        return None
    kept = assignment.reassign_to(target).replicas
    if set(node.in_sync_replicas) <= set(assignment.replicas) - set(kept):
        return (
            f"The replicas {list(kept)} would be without any of the in-sync replicas "
            f"{node.in_sync_replicas}."
        )
    return None


def _judge_partition(step: Step, where: TopicPartition) -> Verdict:
    if where.topic in step.state.deletions or step.assignment(where) is None:
        return _NO_PARTITION
    return DONE


def _bad_list(target: Sequence[int]) -> str | None:
    if not target:
        return "Empty replica list specified in partition reassignment."
    if len(set(target)) != len(target):
        return f"Duplicate replica ids in partition reassignment replica list: {list(target)}"
    if min(target) < 0:
        return f"Invalid broker id in partition reassignment replica list: {list(target)}"
    return None


def listed(step: Step, event: ReassignmentsListed) -> None:
    """Answer with the moves under way."""
    asked = step.state.topic_partitions() if event.partitions is None else event.partitions
    moving: dict[TopicPartition, Moving] = {}
    for where in asked:
        assignment = step.assignment(where)
        if assignment is not None and assignment.is_reassigning:
            moving[where] = Moving(*assignment)
    step.answer(event.token, ReassignmentsReply(moving))


# -- the steps


def _begin(step: Step, where: TopicPartition, target: Sequence[int] | None) -> None:
    current = step.assignment(where)
    assert current is not None
    assignment = current.reassign_to(current.origin if target is None else target)
    step.state.finishing.pop(where, None)
    if assignment != current:
        step.put_assignment(where, assignment)
    _go_on(step, where)
    unneeded = [b for b in current.replicas if b not in assignment.replicas]
    settle(step, where)  # those that are not needed are in sync no longer
    stop_replicas(step, where, unneeded)


def _go_on(step: Step, where: TopicPartition) -> None:
    """Finish a move, or make all replicas obey the assignment as it is."""
    if is_complete(step, where):
        finish(step, where)
        return
    node = step.node(where)
    if node is not None:
        step.put_node(where, election.led_by(node, node.leader, node.in_sync_replicas))


def is_complete(step: Step, where: TopicPartition) -> bool:
    """Tell whether all of the target are in sync, and one of them can lead.

    An assignment that adds and removes nobody is complete at once, whoever is away.
    """
    assignment, node = step.assignment(where), step.node(where)
    if assignment is None or node is None:
        return False
    if not assignment.is_reassigning:
        return True
    target, is_online = assignment.target, step.online(where)
    return set(target) <= set(node.in_sync_replicas) and any(is_online(b) for b in target)


def finish(step: Step, where: TopicPartition) -> None:
    """Have a leader and an in-sync set of the target, and the other replicas deleted; then conclude."""
    assignment = step.assignment(where)
    assert assignment is not None
    if not assignment.is_reassigning:
        _lead_by_target(step, where)
    elif where not in step.state.finishing:
        leader_epoch = _lead_by_target(step, where)
        step.state.finishing[where] = Finishing(assignment.target, leader_epoch)
    _conclude(step, where)


def _lead_by_target(step: Step, where: TopicPartition) -> int:
    """Have a leader and an in-sync set of the target; return the leader epoch."""
    assignment, node = step.assignment(where), step.node(where)
    assert assignment is not None
    assert node is not None
    target, is_online = assignment.target, step.online(where)
    after = election.led_by(node, node.leader, node.in_sync_replicas)
    if node.leader not in target or not is_online(node.leader):
        # Nobody of a mere reordering may be able to lead: it stays as it is until one comes back.
        after = election.reassigned(node, target, is_online) or after
    rest = [b for b in after.in_sync_replicas if b in target]
    return step.put_node(where, after._replace(in_sync_replicas=rest or after.in_sync_replicas))


def _conclude(step: Step, where: TopicPartition) -> None:
    """Write the target alone, unless somebody who can be reached has yet to delete its replica."""
    assignment = step.assignment(where)
    assert assignment is not None
    finishing = step.state.finishing.get(where, Finishing(assignment.target, 0))
    leaving = [b for b in assignment.removing if step.state.is_reachable(b)]
    stop_replicas(step, where, [b for b in leaving if b not in finishing.asked])
    finishing.asked.update(leaving)
    if not set(leaving) <= finishing.answered:
        return
    if assignment.is_reassigning:
        step.put_assignment(where, Assignment(assignment.target))
    if where in step.state.reassignment_node:
        _strike(step, [where])


def note_deleted(step: Step, event: OrderAnswered) -> list[TopicPartition]:
    """Learn which replicas of moved partitions are deleted, or cannot be; return the moves that can go on."""
    concerned = []
    for where in event.deleted:
        finishing = step.state.finishing.get(where)
        if finishing is not None and event.broker in finishing.asked:
            finishing.answered.add(event.broker)
            concerned.append(where)
    return concerned


def interrupt(step: Step, brokers: Collection[int]) -> None:
    """Wait no longer for brokers that went away, and ask them once more if they are back before the end."""
    for finishing in step.state.finishing.values():
        finishing.asked.difference_update(brokers)
        finishing.answered.difference_update(brokers)


def resume(step: Step, partitions: Iterable[TopicPartition], brokers: Collection[int]) -> None:
    """Go on with moves that wait for one of these brokers."""
    for where in partitions:
        assignment = step.assignment(where)
        if assignment is None or not assignment.is_reassigning:
            continue
        if any(broker in brokers for broker in assignment.target):
            _go_on(step, where)


def complete(step: Step, partitions: Iterable[TopicPartition]) -> None:
    """Finish the moves that can be finished."""
    for where in partitions:
        assignment = step.assignment(where)
        if assignment is None or not assignment.is_reassigning:
            continue
        if where in step.state.finishing or is_complete(step, where):
            finish(step, where)


def _strike(step: Step, partitions: Collection[TopicPartition]) -> None:
    """Take partitions out of `/admin/reassign_partitions`."""
    remaining: Mapping[TopicPartition, tuple[int, ...]] = step.state.reassignment_node
    for record in step.after:
        if isinstance(record, ReassignmentNodeWritten):
            remaining = record.remaining
            step.after.remove(record)
            break
    kept = {w: target for w, target in remaining.items() if w not in partitions}
    step.after.append(ReassignmentNodeWritten(kept))
