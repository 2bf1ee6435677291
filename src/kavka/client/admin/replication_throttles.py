"""The throttles of moves: settings of brokers and topics that a plan sets when it begins and clears when it ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kavka.client.admin.admin import Admin
from kavka.client.admin.configs import AlterOp, ConfigOp, ConfigResource, ResourceType
from kavka.client.admin.placement_plans import Assignment
from kavka.client.admin.reassignments import Reassignment
from kavka.client.admin.replica_log_dirs import Replica
from kavka.ids import TopicPartition

BROKER_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
TOPIC_REPLICAS = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)


class Move(NamedTuple):
    """The source and the destination brokers of a partition's records."""

    sources: frozenset[int]
    destinations: frozenset[int]


Moves = Mapping[TopicPartition, Move]


def moves_of(
    under_way: Mapping[TopicPartition, Reassignment], proposed: Assignment, current: Assignment
) -> dict[TopicPartition, Move]:
    """Return all moves that there are once a plan is begun beside those in progress."""
    moves = {
        topic_partition: Move(frozenset(move.replicas) - {*move.adding}, frozenset(move.adding))
        for topic_partition, move in under_way.items()
    }
    for topic_partition, replicas in proposed.items():
        sources = (
            moves[topic_partition].sources
            if topic_partition in moves
            else frozenset(current[topic_partition])
        )
        moves[topic_partition] = Move(sources, frozenset(replicas) - sources)
    return moves


def throttled_replicas(moves: Moves) -> dict[str, tuple[str, str]]:
    """Return, for each topic, the throttled leader and follower replicas: `0:1,0:2`."""
    shown: dict[str, tuple[set[str], set[str]]] = {}
    for topic_partition, move in moves.items():
        leaders, followers = shown.setdefault(topic_partition.topic, (set(), set()))
        leaders.update(f"{topic_partition.partition}:{broker}" for broker in move.sources)
        followers.update(f"{topic_partition.partition}:{broker}" for broker in move.destinations)
    return {
        topic: (",".join(sorted(leaders)), ",".join(sorted(followers)))
        for topic, (leaders, followers) in shown.items()
    }


async def throttle_moves(admin: Admin, moves: Moves, rate: int) -> None:
    """Throttle the replication that the moves cause to `rate` bytes a second on each broker."""
    await _alter(
        admin,
        ResourceType.TOPIC,
        {
            topic: [
                ConfigOp(name, replicas)
                for name, replicas in zip(TOPIC_REPLICAS, listed, strict=True)
            ]
            for topic, listed in throttled_replicas(moves).items()
        },
    )
    brokers = sorted({b for move in moves.values() for b in move.sources | move.destinations})
    rates = [ConfigOp(name, str(rate)) for name in BROKER_RATES]
    await _alter(admin, ResourceType.BROKER, {str(broker): rates for broker in brokers})


async def throttle_log_dirs(admin: Admin, replicas: Iterable[Replica], rate: int) -> None:
    """Throttle moves between the directories of the replicas' brokers to `rate` bytes a second."""
    brokers = sorted({replica.broker_id for replica in replicas})
    change = [ConfigOp(LOG_DIR_RATE, str(rate))]
    await _alter(admin, ResourceType.BROKER, {str(broker): change for broker in brokers})


async def clear_broker_throttles(admin: Admin, brokers: Iterable[int]) -> None:
    """Remove all throttles of brokers."""
    rates = [ConfigOp(name, None, AlterOp.DELETE) for name in (*BROKER_RATES, LOG_DIR_RATE)]
    await _alter(admin, ResourceType.BROKER, {str(broker): rates for broker in brokers})


async def clear_topic_throttles(admin: Admin, topics: Iterable[str]) -> None:
    """Remove all throttles of topics."""
    lists = [ConfigOp(name, None, AlterOp.DELETE) for name in TOPIC_REPLICAS]
    await _alter(admin, ResourceType.TOPIC, dict.fromkeys(topics, lists))


async def _alter(admin: Admin, kind: ResourceType, changes: Mapping[str, list[ConfigOp]]) -> None:
    wanted = {ConfigResource(kind, name): change for name, change in changes.items()}
    for error in (await admin.incremental_alter_configs(wanted)).values():
        if error is not None:
            raise error
