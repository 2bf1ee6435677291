"""The log directory of a replica, and its move to another one (KIP-113)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kavka.client import arguments
from kavka.client.admin.nodes import describe_log_dirs
from kavka.client.admin.router import Router, plain, refusal
from kavka.errors import KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequestDir,
    AlterReplicaLogDirsRequestTopic,
    AlterReplicaLogDirsResponse,
)


class Replica(NamedTuple):
    """The replica of a partition on one broker."""

    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        """Return the name that Kafka gives it, such as `t-0-1`."""
        return f"{self.topic}-{self.partition}-{self.broker_id}"


class ReplicaLogDirs(NamedTuple):
    """The current and the future directory of a replica; None where there is none."""

    current: str | None = None
    current_offset_lag: int = -1
    future: str | None = None
    future_offset_lag: int = -1


async def describe_replica_log_dirs(
    router: Router, replicas: Iterable[Replica], timeout_ms: int | None
) -> dict[Replica, ReplicaLogDirs | Exception]:
    """See `Admin.describe_replica_log_dirs`."""
    wanted = arguments.each("replicas", replicas, Replica)

    async def ask(broker_id: BrokerId) -> dict[Replica, ReplicaLogDirs]:
        here = [replica for replica in wanted if replica.broker_id == broker_id]
        topics: dict[str, Sequence[int]] = {
            name: [replica.partition for replica in here if replica.topic == name]
            for name in dict.fromkeys(replica.topic for replica in here)
        }
        result = (await describe_log_dirs(router, [broker_id], topics, timeout_ms))[broker_id]
        if isinstance(result, Exception):
            raise result
        found: dict[Replica, ReplicaLogDirs] = {}
        for path, log_dir in result.items():
            for topic_partition, held in log_dir.replicas.items():
                replica = Replica(topic_partition.topic, topic_partition.partition, broker_id)
                known = found.get(replica, ReplicaLogDirs())
                if held.is_future:
                    known = known._replace(future=path, future_offset_lag=held.offset_lag)
                else:
                    known = known._replace(current=path, current_offset_lag=held.offset_lag)
                found[replica] = known
        return found

    brokers = dict.fromkeys(BrokerId(replica.broker_id) for replica in wanted)
    results = await router.gather((broker, ask(broker)) for broker in brokers)
    outcomes: dict[Replica, ReplicaLogDirs | Exception] = {}
    for replica in wanted:
        result = results[BrokerId(replica.broker_id)]
        outcomes[replica] = (
            result if isinstance(result, Exception) else result.get(replica, ReplicaLogDirs())
        )
    return outcomes


async def alter_replica_log_dirs(
    router: Router, targets: Mapping[Replica, str], timeout_ms: int | None
) -> dict[Replica, Exception | None]:
    """See `Admin.alter_replica_log_dirs`."""
    for replica, path in arguments.by("targets", targets, Replica).items():
        arguments.name(f"the directory of {replica}", path)

    async def ask(broker_id: BrokerId) -> dict[TopicPartition, KafkaError | None]:
        request = _request({r: path for r, path in targets.items() if r.broker_id == broker_id})
        response: AlterReplicaLogDirsResponse = await router.broker(
            broker_id, plain(request), lambda _: (), timeout_ms
        )
        return {
            TopicPartition(topic.topic_name, part.partition_index): refusal(part.error_code)
            for topic in response.results
            for part in topic.partitions
        }

    brokers = dict.fromkeys(BrokerId(replica.broker_id) for replica in targets)
    results = await router.gather((broker, ask(broker)) for broker in brokers)
    outcomes: dict[Replica, Exception | None] = {}
    for replica in targets:
        result = results[BrokerId(replica.broker_id)]
        if isinstance(result, Exception):
            outcomes[replica] = result
        else:
            outcomes[replica] = result[TopicPartition(replica.topic, replica.partition)]
    return outcomes


def _request(targets: Mapping[Replica, str]) -> AlterReplicaLogDirsRequest:
    paths: dict[str, dict[str, list[int]]] = {}
    for replica, path in targets.items():
        paths.setdefault(path, {}).setdefault(replica.topic, []).append(replica.partition)
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDirsRequestDir(
                path=path,
                topics=[
                    AlterReplicaLogDirsRequestTopic(name=name, partitions=numbers)
                    for name, numbers in topics.items()
                ],
            )
            for path, topics in paths.items()
        ]
    )
