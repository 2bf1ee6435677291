"""Administrators: they create topics, and delete records and short-lived topics while others work."""

from __future__ import annotations

import asyncio
from typing import Any

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.peer import Peer
from kavka.simulation.environment import SimEnvironment
from kavka.simulation.events import Deleted
from kavka.simulation.load.client import ClientNode
from kavka.simulation.load.readers import EARLIEST, LATEST, RawReader
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from kavka.wire.messages.delete_topics import DeleteTopicsRequest

_ALL = -1
_ANYWHERE = 1 << 62
_TIMEOUT_MS = 5000


class SetUpNode(ClientNode):
    """Makes the topics of the run."""

    async def work(self, environment: SimEnvironment) -> None:
        """Make every topic, however often it takes."""
        for topic, partitions in self.scenario.topics.items():
            error = ErrorCode.REQUEST_TIMED_OUT
            while error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                error = await create_topic(
                    environment, self.client_id, topic, partitions, self.scenario.topic
                )


class AdminNode(ClientNode):
    """Deletes records, and creates and deletes topics without other users."""

    async def work(self, environment: SimEnvironment) -> None:
        """Run a dozen administrative actions."""
        for number in range(12):
            await asyncio.sleep(self.source.expovariate(1))
            if self.source.random() < 0.5:
                await self._delete_records(environment)
            else:
                await self._churn(environment, f"fleeting-{self.source.randrange(2)}", number)

    async def _delete_records(self, environment: SimEnvironment) -> None:
        """Delete up to somewhere in a partition; what became of it after a failure is not known."""
        partition = self.source.choice(self.scenario.partitions)
        reader = await RawReader.connect(environment, self.client_id)
        try:
            start, end = (
                await reader.offset(partition, EARLIEST),
                await reader.offset(partition, LATEST),
            )
            if start is None or end is None or start >= end:
                return
            offset = self.source.choice([self.source.randint(start, end), _ALL])
            self.checker.observe(Deleted(partition, offset if offset != _ALL else _ANYWHERE))
            response = await reader.peer.send(_deletion(partition, offset), timeout_ms=_TIMEOUT_MS)
            part = response.topics[0].partitions[0]
            self.world.trace.add(
                self.name,
                f"deletes {partition} below {offset}: {ErrorCode.of(part.error_code).name} {part.low_watermark}",
            )
        except OSError as error:
            self.world.trace.add(self.name, f"does not know whether {partition} was cut: {error}")
        finally:
            reader.peer.close()

    async def _churn(self, environment: SimEnvironment, topic: str, number: int) -> None:
        created = await create_topic(environment, self.client_id, topic, 1 + number % 3, {})
        self.world.trace.add(self.name, f"creates {topic}: {created.name}")
        await asyncio.sleep(self.source.expovariate(2))
        deleted = await _send(
            environment,
            self.client_id,
            DeleteTopicsRequest(topic_names=[topic], timeout_ms=_TIMEOUT_MS),
            version=5,
        )
        if deleted is not None:
            error = ErrorCode.of(deleted.responses[0].error_code)
            self.world.trace.add(self.name, f"deletes {topic}: {error.name}")


async def create_topic(
    environment: SimEnvironment,
    client_id: str,
    topic: str,
    partitions: int,
    settings: dict[str, str],
) -> ErrorCode:
    """Make a topic; NETWORK_EXCEPTION when the response was lost."""
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequestTopic(
                name=topic,
                num_partitions=partitions,
                replication_factor=1,
                assignments=[],
                configs=[CreateTopicsRequestConfig(name=n, value=v) for n, v in settings.items()],
            )
        ],
        timeout_ms=_TIMEOUT_MS,
    )
    response = await _send(environment, client_id, request)
    if response is None:
        await asyncio.sleep(0.2)
        return ErrorCode.NETWORK_EXCEPTION
    return ErrorCode.of(response.topics[0].error_code)


async def _send(
    environment: SimEnvironment, client_id: str, request: Any, version: int | None = None
) -> Any:
    """Send one request over a connection of its own; None when the response was lost."""
    reader = await RawReader.connect(environment, client_id)
    peer: Peer = reader.peer
    try:
        return await peer.send(request, version, timeout_ms=2 * _TIMEOUT_MS)
    except OSError:
        return None
    finally:
        peer.close()


def _deletion(partition: TopicPartition, offset: int) -> DeleteRecordsRequest:
    part = DeleteRecordsRequestPartition(partition_index=partition.partition, offset=offset)
    topic = DeleteRecordsRequestTopic(name=partition.topic, partitions=[part])
    return DeleteRecordsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
