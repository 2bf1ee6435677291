"""Asking the leaders of partitions, again and again until each has answered: for offsets, and for deleting records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from itertools import count
from typing import TypeVar

from kavka.client.cluster import Cluster
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.wire.codec import CorruptFrame

T = TypeVar("T")

Results = dict[TopicPartition, T | KafkaError]
SendToLeader = Callable[
    [BrokerId, list[TopicPartition]], Awaitable[Mapping[TopicPartition, T | KafkaError]]
]
"""Asks one leader about partitions. It may raise OSError and CorruptFrame."""

_STALE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


async def send_to_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    ask: SendToLeader[T],
    into: Results[T] | None = None,
) -> Results[T]:
    """Ask each leader once, concurrently. Partitions with an unknown or unreachable leader have no response.

    Results are put `into` a mapping as they come, and stay there if this is cancelled while one leader is silent.
    """
    results: Results[T] = {} if into is None else into
    leaders: dict[BrokerId, list[TopicPartition]] = {}
    for topic_partition in partitions:
        leader = cluster.metadata.leader(topic_partition)
        if leader is not None:
            leaders.setdefault(leader, []).append(topic_partition)
            continue
        cluster.mark_stale()
        code = _leader_error(cluster, topic_partition)
        if code is not None:
            results[topic_partition] = KafkaError(code, f"{topic_partition}: {code.message}")

    async def one(leader: BrokerId, group: list[TopicPartition]) -> None:
        try:
            results.update(await ask(leader, group))
        except (OSError, CorruptFrame):
            cluster.mark_stale()

    await asyncio.gather(*(one(leader, group) for leader, group in leaders.items()))
    if any(isinstance(found, KafkaError) and found.code in _STALE for found in results.values()):
        cluster.mark_stale()
    return results


def _leader_error(cluster: Cluster, topic_partition: TopicPartition) -> ErrorCode | None:
    """Return why a partition has no leader, None while that is not known."""
    topic = cluster.metadata.topics.get(topic_partition.topic)
    if topic is None:
        return None
    if topic.error is not ErrorCode.NONE:
        return topic.error
    if topic.partitions and topic_partition.partition >= len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return None


async def send_until_answered(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    ask: SendToLeader[T],
    *,
    timeout_ms: int,
    unknown_after: int | None = None,
) -> Results[T]:
    """Repeat, with back-off, what was refused retriably or not answered, until `timeout_ms` is over.

    Then the last refusals stand, and partitions without any response are missing. A partition that is said not to exist
    is asked for again as well, because brokers learn of new topics one after another: `unknown_after` rounds at most.
    """
    wanted = list(partitions)
    results: Results[T] = {}
    rounds = 0
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await cluster.add_partitions_of_interest(wanted)
            while open_ := [
                topic_partition
                for topic_partition in wanted
                if _is_open(results.get(topic_partition), rounds, unknown_after)
            ]:
                if rounds:
                    await cluster.back_off(rounds - 1)
                await send_to_leaders(cluster, open_, ask, results)
                rounds += 1
    except TimeoutError:
        pass  # the caller sees what is missing
    return results


def _is_open(result: object, rounds: int, unknown_after: int | None) -> bool:
    if result is None:
        return True
    if not isinstance(result, KafkaError):
        return False
    if result.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return unknown_after is None or rounds < unknown_after
    return result.retriable


async def retrying(
    cluster: Cluster, attempt: Callable[[], Awaitable[T]], what: str, timeout_ms: int
) -> T:
    """Repeat an attempt that fails with a retriable KafkaError or an OSError, until `timeout_ms` is over.

    Raise what the last attempt raised, a TimeoutError saying `what` failed if that was not a response of a broker.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + timeout_ms / 1000
    for number in count():
        try:
            return await attempt()
        except (KafkaError, OSError) as error:
            if isinstance(error, KafkaError) and not error.retriable:
                raise
            if now() >= deadline:
                if isinstance(error, KafkaError):
                    raise
                raise TimeoutError(f"{what} failed for {timeout_ms} ms: {error}") from error
        await cluster.back_off(number)
        with suppress(OSError, KafkaError):
            await cluster.refresh()
    raise AssertionError("a deadline ends this loop")


def require_ok(code: int, what: str) -> None:
    """Raise KafkaError that says `what` was refused, unless the code is NONE."""
    error = ErrorCode.of(code)
    if error is not ErrorCode.NONE:
        raise KafkaError(error, f"{what}: {error.message}")
