"""Progress of a plan's reassignments: the output of `kavka reassign-partitions --verify`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kavka.cli.text.failures import CommandFailed
from kavka.client.admin.admin import Admin
from kavka.client.admin.replica_log_dirs import Replica, ReplicaLogDirs
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition


class MoveState(NamedTuple):
    """The current and the target replicas of a partition."""

    current: tuple[int, ...]
    target: tuple[int, ...]
    is_done: bool
    """No move of it is in progress, whether or not it is where it shall be."""

    def description(self, topic_partition: TopicPartition) -> str:
        """Return the sentence about it."""
        if not self.is_done:
            return f"Reassignment of partition {topic_partition} is still in progress."
        if self.current == self.target:
            return f"Reassignment of partition {topic_partition} is completed."
        return (
            f"There is no active reassignment of partition {topic_partition}, but replica set is "
            f"{_listed(self.current)} rather than {_listed(self.target)}."
        )


async def partition_states(
    admin: Admin, entries: Sequence[tuple[TopicPartition, Sequence[int]]]
) -> tuple[dict[TopicPartition, MoveState], bool]:
    """Return the state of each partition, and whether any partition of the cluster moves."""
    moves = await admin.list_partition_reassignments()
    resting = dict.fromkeys(
        topic_partition.topic for topic_partition, _ in entries if topic_partition not in moves
    )
    topics = await admin.describe_topics(resting) if resting else {}
    states = {}
    for topic_partition, target in entries:
        if topic_partition in moves:
            states[topic_partition] = MoveState(
                moves[topic_partition].replicas, tuple(target), False
            )
            continue
        topic = topics[topic_partition.topic]
        current: tuple[int, ...] = ()
        if not isinstance(topic, KafkaError):
            known = {part.partition: part.replicas for part in topic.partitions}
            current = known.get(topic_partition.partition, ())
        elif topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise topic
        states[topic_partition] = MoveState(current, tuple(target), True)
    return states, bool(moves)


def partition_lines(states: Mapping[TopicPartition, MoveState]) -> list[str]:
    """Return the lines about the partitions."""
    lines = [
        state.description(topic_partition) for topic_partition, state in sorted(states.items())
    ]
    return ["Status of partition reassignment:", *lines]


class LogDirState(NamedTuple):
    """The current and the target directory of a replica."""

    found: ReplicaLogDirs
    target: str

    @property
    def is_done(self) -> bool:
        """Return whether no move is ongoing."""
        return self.found.future is None or self.found.current is None

    def description(self, replica: Replica) -> str:
        """Return the sentence about it."""
        partition = f"{replica.topic}-{replica.partition}"
        found, target = self.found, self.target
        if found.current is None:
            return (
                f"Partition {partition} is not found in any live log dir on broker {replica.broker_id}. There is "
                "likely an offline log directory on the broker."
            )
        if found.future == target:
            return f"Reassignment of replica {replica} is still in progress."
        if found.future is not None:
            return (
                f"Partition {partition} on broker {replica.broker_id} is being moved to log dir {found.future} "
                f"instead of {target}."
            )
        if found.current == target:
            return f"Reassignment of replica {replica} completed successfully."
        return (
            f"Partition {partition} on broker {replica.broker_id} is not being moved from log dir {found.current} to "
            f"{target}."
        )


async def log_dir_states(
    admin: Admin, targets: Mapping[Replica, str]
) -> dict[Replica, LogDirState]:
    """Return the state of each replica that shall lie in a certain directory. Raise what a broker answers."""
    if not targets:
        return {}
    found = await admin.describe_replica_log_dirs(targets)
    states = {}
    for replica, target in targets.items():
        result = found[replica]
        if isinstance(result, Exception):
            raise result
        states[replica] = LogDirState(result, target)
    return states


def log_dir_lines(states: Mapping[Replica, LogDirState]) -> list[str]:
    """Return the lines about the replicas."""
    return [state.description(replica) for replica, state in sorted(states.items())]


async def current_assignment(
    admin: Admin, wanted: Sequence[TopicPartition]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the brokers of partitions. Raise CommandFailed when one does not exist."""
    known = await assignment_of_topics(
        admin, list(dict.fromkeys(topic_partition.topic for topic_partition in wanted))
    )
    missing = [topic_partition for topic_partition in wanted if topic_partition not in known]
    if missing:
        raise CommandFailed(
            _EXECUTION,
            f"{_UNKNOWN}: Unable to find partition: {', '.join(map(str, missing))}",
        )
    return {topic_partition: known[topic_partition] for topic_partition in wanted}


async def assignment_of_topics(
    admin: Admin, topics: Sequence[str]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the brokers of all partitions of topics. Raise CommandFailed when a topic does not exist."""
    if not topics:
        return {}
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for name, topic in (await admin.describe_topics(topics)).items():
        if isinstance(topic, KafkaError):
            if topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise CommandFailed(_EXECUTION, f"{_UNKNOWN}: Topic {name} not found.")
            raise topic
        found.update((TopicPartition(name, p.partition), p.replicas) for p in topic.partitions)
    return found


_EXECUTION = "java.util.concurrent.ExecutionException"
_UNKNOWN = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"


def _listed(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
