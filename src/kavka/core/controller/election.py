"""Kafka's leader election algorithms, as functions of one partition.

| election            | candidates                               | in-sync set after                        |
|---------------------|------------------------------------------|------------------------------------------|
| first               | online replicas, in order                | all online replicas                      |
| offline             | online and in sync, in order             | without those that are not online        |
| unclean (if allowed)| online, in order                         | the leader alone, recovering             |
| reassigned          | online and in sync, of the target        | unchanged                                |
| preferred           | the first replica, if online and in sync | unchanged                                |
| controlled shutdown | online and in sync, not shutting down    | without those that shut down             |

Each raises the leader epoch. Source: Kafka's `PartitionLeaderElectionAlgorithms` and `Election`, KIP-704.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kavka.core.controller.state import NO_LEADER
from kavka.wire.stored.znodes import StateNode

IsOnline = Callable[[int], bool]


def elect_first(
    replicas: Sequence[int], is_online: IsOnline, controller_epoch: int
) -> StateNode | None:
    """Return the state of a partition that never had a leader."""
    online = [broker for broker in replicas if is_online(broker)]
    return StateNode(online[0], 0, controller_epoch, online) if online else None


def elect_offline(
    node: StateNode, replicas: Sequence[int], is_online: IsOnline, *, allow_unclean: bool
) -> StateNode | None:
    """Return the state under a new leader for one that is offline, or None when no replica may lead."""
    in_sync = node.in_sync_replicas
    for broker in replicas:
        if is_online(broker) and broker in in_sync:
            return led_by(node, broker, [b for b in in_sync if b in replicas and is_online(b)])
    if allow_unclean:
        for broker in replicas:
            if is_online(broker):
                # What the others have may differ: the leader says when it has sorted that out.
                return led_by(node, broker, [broker])._replace(recovering=True)
    return None


def elect_for_reassignment(
    node: StateNode, target: Sequence[int], is_online: IsOnline
) -> StateNode | None:
    """Return the state under a leader of the target replicas, or None when none of them may lead."""
    leader = _first_of(target, node, is_online)
    return None if leader is None else led_by(node, leader, node.in_sync_replicas)


def elect_preferred(
    node: StateNode, replicas: Sequence[int], is_online: IsOnline
) -> StateNode | None:
    """Return the state under the first replica, or None when it may not lead."""
    leader = _first_of(replicas[:1], node, is_online)
    return None if leader is None else led_by(node, leader, node.in_sync_replicas)


def elect_for_controlled_shutdown(
    node: StateNode,
    replicas: Sequence[int],
    is_online_or_leaving: IsOnline,
    shutting_down: Iterable[int],
) -> StateNode | None:
    """Return the state under a leader that stays, or None when there is none."""
    leaving = set(shutting_down)
    staying = [broker for broker in replicas if broker not in leaving]
    leader = _first_of(staying, node, is_online_or_leaving)
    if leader is None:
        return None
    return led_by(node, leader, [b for b in node.in_sync_replicas if b not in leaving])


def led_by(node: StateNode, leader: int, in_sync_replicas: Sequence[int]) -> StateNode:
    """Return the next epoch of a partition."""
    return node._replace(
        leader=leader,
        leader_epoch=node.leader_epoch + 1,
        in_sync_replicas=list(in_sync_replicas),
    )


def without(node: StateNode, gone: Iterable[int]) -> StateNode:
    """Return the next epoch without some replicas; if the leader is among them, without a leader.

    The in-sync set never becomes empty. If it would be, all replicas stay: the first of them to return has
    every acknowledged record. (Kafka removes them one by one and keeps the last.)
    """
    absent = set(gone)
    leader = NO_LEADER if node.leader in absent else node.leader
    rest = [broker for broker in node.in_sync_replicas if broker not in absent]
    return led_by(node, leader, rest or node.in_sync_replicas)


def is_unclean(before: StateNode, after: StateNode) -> bool:
    """Return whether a leader was elected that was not in sync: what others had acknowledged may be lost."""
    return after.leader != NO_LEADER and after.leader not in before.in_sync_replicas


def _first_of(replicas: Sequence[int], node: StateNode, is_online: IsOnline) -> int | None:
    for broker in replicas:
        if is_online(broker) and broker in node.in_sync_replicas:
            return broker
    return None
