"""Elections as part of a step.

A partition without leader gets another, and a replica that is not online leaves the in-sync set.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kavka.core.controller import election
from kavka.core.controller.broker_updates import BrokerUpdate, ReplicaStop
from kavka.core.controller.events import (
    ElectionKind,
)
from kavka.core.controller.replies import (
    DONE,
    Verdict,
)
from kavka.core.controller.state import NO_LEADER, Assignment
from kavka.core.controller.step import Step
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, TopicPartition
from kavka.wire.stored.znodes import StateNode

_PREFERRED: Final = "PreferredReplicaPartitionLeaderElectionStrategy"
_UNCLEAN: Final = "OfflinePartitionLeaderElectionStrategy(true)"
"""As Kafka's tools show them behind what failed."""


def update_leadership(
    step: Step, topic_partition: TopicPartition, *, allow_unclean: bool = False
) -> None:
    """Set a partition's state to the best that the replicas that are online now allow.

    Nothing is written when that is the state which it has, so it may be asked again and again.
    """
    assignment = step.assignment(topic_partition)
    if assignment is None or step.state.is_deleting(topic_partition.topic):
        return
    is_online = step.online(topic_partition)
    node = step.node(topic_partition)
    if node is None:
        fresh = election.elect_first(assignment.replicas, is_online, step.epoch)
        if fresh is not None:
            step.put_node(topic_partition, fresh)
        return
    removed = [b for b in node.in_sync_replicas if b not in assignment.replicas]
    # A leader that shuts down serves meanwhile: ControlledShutdown moves its leaderships, except where no other can
    # lead.
    serves = step.online(topic_partition, or_leaving=True)
    if node.leader != NO_LEADER and node.leader in assignment.replicas and serves(node.leader):
        followers = [b for b in node.in_sync_replicas if b != node.leader]
        absent = [b for b in followers if b in removed or not is_online(b)]
        if absent:
            step.put_node(topic_partition, election.without(node, absent))
    else:
        _replace_leader(step, topic_partition, node, assignment, allow_unclean=allow_unclean)
    after = step.node(topic_partition)
    if after is not None and after.leader in assignment.replicas:
        stop_replicas(step, topic_partition, removed)


def _replace_leader(
    step: Step,
    topic_partition: TopicPartition,
    node: StateNode,
    assignment: Assignment,
    *,
    allow_unclean: bool,
) -> None:
    is_online = step.online(topic_partition)
    allowed = allow_unclean or (
        step.settings.allows_unclean(topic_partition.topic)
        # Their registrations stand: what was acknowledged is there, and mere suspicion must not give it up.
        and not any(step.may_return(broker, topic_partition) for broker in node.in_sync_replicas)
    )
    elected = election.elect_offline(node, assignment.replicas, is_online, allow_unclean=allowed)
    if elected is not None:
        step.put_node(topic_partition, elected)
        return
    absent = [b for b in (node.leader, *node.in_sync_replicas) if not is_online(b)]
    left = election.without(node, absent)
    if (left.leader, left.in_sync_replicas) != (node.leader, node.in_sync_replicas):
        step.put_node(topic_partition, left)


def update_leaderships(step: Step, partitions: Iterable[TopicPartition]) -> None:
    """Settle many partitions."""
    for topic_partition in partitions:
        update_leadership(step, topic_partition)


def stop_replicas(
    step: Step, topic_partition: TopicPartition, brokers: Iterable[int], *, deletes: bool = True
) -> None:
    """Send StopReplica to the reachable brokers of replicas."""
    gone = tuple(broker for broker in brokers if step.state.is_reachable(broker))
    if not gone:
        return
    node = step.node(topic_partition)
    topic = step.state.topics.get(topic_partition.topic)
    stop = ReplicaStop(
        deletes,
        -1 if node is None else node.leader_epoch,
        NO_TOPIC_ID if topic is None else topic.topic_id,
    )
    step.update_brokers(BrokerUpdate(gone, stops={topic_partition: stop}))


# -- elections by request


def elect(step: Step, topic_partition: TopicPartition, kind: ElectionKind) -> Verdict:
    """Elect the leader of one partition as ElectLeaders asks, or say why that is not done."""
    assignment, node = step.assignment(topic_partition), step.node(topic_partition)
    if assignment is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return Verdict(code, "The partition does not exist.")
    if topic_partition.topic in step.state.deletions:
        return Verdict(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
    if kind is ElectionKind.PREFERRED:
        if node is not None and node.leader == assignment.replicas[0]:
            return _not_needed()
        return _elect_preferred(step, topic_partition, assignment, node)
    if node is not None and node.leader != NO_LEADER and step.state.is_reachable(node.leader):
        return _not_needed()
    update_leadership(step, topic_partition, allow_unclean=True)
    after = step.node(topic_partition)
    if after is None or after.leader == NO_LEADER:
        return _failed(topic_partition, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, _UNCLEAN)
    return DONE


def _elect_preferred(
    step: Step, topic_partition: TopicPartition, assignment: Assignment, node: StateNode | None
) -> Verdict:
    if node is not None:
        elected = election.elect_preferred(node, assignment.replicas, step.online(topic_partition))
        if elected is not None:
            step.put_node(topic_partition, elected)
            return DONE
    return _failed(topic_partition, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, _PREFERRED)


def _not_needed() -> Verdict:
    code = ErrorCode.ELECTION_NOT_NEEDED
    return Verdict(code, code.message)


def _failed(topic_partition: TopicPartition, code: ErrorCode, strategy: str) -> Verdict:
    return Verdict(
        code, f"Failed to elect leader for partition {topic_partition} under strategy {strategy}"
    )


def rebalance(step: Step) -> list[TopicPartition]:
    """Elect preferred leaders on brokers where too many are led by others; return the partitions."""
    by_preferred: dict[int, list[TopicPartition]] = {}
    for topic_partition in step.state.topic_partitions():
        assignment = step.assignment(topic_partition)
        if assignment is not None and topic_partition.topic not in step.state.deletions:
            by_preferred.setdefault(assignment.replicas[0], []).append(topic_partition)
    moved: list[TopicPartition] = []
    for broker, partitions in sorted(by_preferred.items()):
        strayed = [w for w in partitions if (n := step.node(w)) is not None and n.leader != broker]
        if len(strayed) * 100 <= step.settings.rebalance_percentage * len(partitions):
            continue
        moved += [
            topic_partition
            for topic_partition in strayed
            if _should_rebalance(step, topic_partition)
        ]
    return moved


def _should_rebalance(step: Step, topic_partition: TopicPartition) -> bool:
    assignment = step.assignment(topic_partition)
    if assignment is None or assignment.is_reassigning:
        return False
    return elect(step, topic_partition, ElectionKind.PREFERRED) is DONE
