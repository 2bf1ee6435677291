"""Objects of `kavka leader-election`, `preferred-replica-election` and `reassign-partitions`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from kavka.cli.json_lines.lines import Row, error_object
from kavka.cli.json_rows.topics import of_partition
from kavka.cli.reassignment.plans import Plan, plan_json
from kavka.cli.reassignment.progress import LogDirState, MoveState
from kavka.client.admin.elections import ElectionType
from kavka.client.admin.placement_plans import Assignment
from kavka.client.admin.reassignments import Reassignment
from kavka.client.admin.replica_log_dirs import Replica
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition


def election_rows(
    kind: ElectionType, outcomes: Mapping[TopicPartition, KafkaError | None]
) -> list[Row]:
    """Return the outcomes of elections; one that was not needed is no failure."""
    return [_election(kind, *each) for each in sorted(outcomes.items(), key=lambda each: each[0])]


def _election(kind: ElectionType, topic_partition: TopicPartition, error: KafkaError | None) -> Row:
    outcome = "elected" if error is None else "failed"
    if error is not None and error.code is ErrorCode.ELECTION_NOT_NEEDED:
        outcome, error = "not_needed", None
    return {
        **of_partition(topic_partition),
        "election_type": kind.name,
        "outcome": outcome,
        "error": None if error is None else error_object(error),
    }


def requested_rows(partitions: Iterable[TopicPartition]) -> list[Row]:
    """Return elections that the controller will hold."""
    return [
        {
            **of_partition(topic_partition),
            "election_type": ElectionType.PREFERRED.name,
            "outcome": "requested",
            "error": None,
        }
        for topic_partition in sorted(partitions)
    ]


def plan_row(current: Assignment, proposed: Assignment) -> Row:
    """Return two placements as plans."""
    return {"current": json.loads(plan_json(current)), "proposed": json.loads(plan_json(proposed))}


def started_row(current: Assignment, plan: Plan, rate: int, log_dir_rate: int) -> Row:
    """Return what has begun; a negative rate is none."""
    return {
        "rollback": json.loads(plan_json(current)),
        "partitions": [
            {**of_partition(topic_partition), "replicas": list(replicas)}
            for topic_partition, replicas in sorted(plan.targets.items())
        ],
        "log_dirs": [
            {**_of_replica(replica), "log_dir": log_dir}
            for replica, log_dir in sorted(plan.log_dirs.items())
        ],
        "throttle": rate if rate >= 0 else None,
        "log_dir_throttle": log_dir_rate if log_dir_rate >= 0 else None,
    }


def move_rows(moves: Mapping[TopicPartition, Reassignment]) -> list[Row]:
    """Return moves that are under way."""
    return [
        {
            **of_partition(topic_partition),
            "replicas": list(move.replicas),
            "adding_replicas": list(move.adding),
            "removing_replicas": list(move.removing),
        }
        for topic_partition, move in sorted(moves.items())
    ]


def state_rows(
    partitions: Mapping[TopicPartition, MoveState], log_dirs: Mapping[Replica, LogDirState]
) -> list[Row]:
    """Return how far the moves of a plan are, those between directories last."""
    return [
        *(
            {
                **of_partition(topic_partition),
                "broker_id": None,
                "state": _state(state.is_done, state.current == state.target),
                "current": ",".join(map(str, state.current)),
                "target": ",".join(map(str, state.target)),
            }
            for topic_partition, state in sorted(partitions.items())
        ),
        *(
            {
                **_of_replica(replica),
                "state": _state(log_dir.is_done, log_dir.found.current == log_dir.target),
                "current": log_dir.found.current or "",
                "target": log_dir.target,
            }
            for replica, log_dir in sorted(log_dirs.items())
        ),
    ]


def _state(is_done: bool, is_there: bool) -> str:
    if not is_done:
        return "in_progress"
    return "completed" if is_there else "not_active"


def cancelled_rows(partitions: Iterable[TopicPartition], replicas: Iterable[Replica]) -> list[Row]:
    """Return moves that were stopped."""
    return [
        *({**of_partition(each), "broker_id": None} for each in sorted(partitions)),
        *(_of_replica(each) for each in sorted(replicas)),
    ]


def _of_replica(replica: Replica) -> dict[str, object]:
    return {
        "topic": replica.topic,
        "partition": replica.partition,
        "broker_id": replica.broker_id,
    }
