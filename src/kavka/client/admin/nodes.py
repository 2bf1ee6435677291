"""The cluster and its brokers: addresses, supported APIs, log directories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kavka.client import arguments
from kavka.client.admin.acls import authorized_operations
from kavka.client.admin.router import Router, plain, refusal
from kavka.client.metadata import BrokerAddress
from kavka.core.access.names import AclOperation
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.wire.messages.api_versions import ApiVersionsResponse
from kavka.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kavka.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
    DescribeLogDirsResponse,
)


class ClusterDescription(NamedTuple):
    """The cluster's id, controller and brokers."""

    cluster_id: str | None
    controller_id: BrokerId
    brokers: list[BrokerAddress]
    authorized_operations: frozenset[AclOperation] | None = None
    """Operations that the client may do with the cluster, if it was asked for (KIP-430)."""


class LogDirReplica(NamedTuple):
    """A replica in a directory; `is_future` means that it is being moved there (KIP-113)."""

    size: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A directory of a broker; the bytes are -1 before Kafka 3.3."""

    error: KafkaError | None
    replicas: dict[TopicPartition, LogDirReplica]
    total_bytes: int
    usable_bytes: int


async def describe_cluster(
    router: Router, timeout_ms: int | None, include_operations: bool = False
) -> ClusterDescription:
    """See `Admin.describe_cluster`."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=include_operations)
    try:
        response: DescribeClusterResponse = await router.any(
            plain(request), lambda a: (a.error_code,), timeout_ms
        )
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        await router.cluster.refresh()  # brokers before 2.8 say it in Metadata
        known = router.cluster.metadata
        return ClusterDescription(
            known.cluster_id, known.controller_id, list(known.brokers.values())
        )
    refused = refusal(response.error_code, response.error_message)
    if refused is not None:
        raise refused
    brokers = [
        BrokerAddress(BrokerId(b.broker_id), b.host, b.port, b.rack) for b in response.brokers
    ]
    return ClusterDescription(
        response.cluster_id,
        BrokerId(response.controller_id),
        brokers,
        authorized_operations(response.cluster_authorized_operations),
    )


async def api_versions(
    router: Router, broker_ids: Iterable[int] | None, timeout_ms: int | None
) -> dict[BrokerAddress, ApiVersionsResponse | Exception]:
    """See `Admin.api_versions`."""
    addresses = await _addresses(router, broker_ids, timeout_ms)

    async def ask(address: BrokerAddress) -> ApiVersionsResponse:
        return (await router.cluster.peer(address.broker_id)).features

    return await router.gather((address, ask(address)) for address in addresses)


async def describe_log_dirs(
    router: Router,
    broker_ids: Iterable[int] | None,
    topics: dict[str, Sequence[int]] | None,
    timeout_ms: int | None,
) -> dict[BrokerId, dict[str, LogDir] | Exception]:
    """See `Admin.describe_log_dirs`."""
    wanted = None
    if topics is not None:
        wanted = [
            DescribeLogDirsRequestTopic(
                topic=name, partitions=arguments.numbers(f"the partitions of {name}", partitions)
            )
            for name, partitions in arguments.by("topic_partitions", topics, str).items()
        ]
    request = DescribeLogDirsRequest(topics=wanted)
    addresses = await _addresses(router, broker_ids, timeout_ms)

    async def ask(broker_id: BrokerId) -> dict[str, LogDir]:
        response: DescribeLogDirsResponse = await router.broker(
            broker_id, plain(request), lambda _: (), timeout_ms
        )
        refused = refusal(response.error_code)
        if refused is not None:
            raise refused
        return _log_dirs(response)

    return await router.gather((a.broker_id, ask(a.broker_id)) for a in addresses)


def _log_dirs(response: DescribeLogDirsResponse) -> dict[str, LogDir]:
    return {
        result.log_dir: LogDir(
            refusal(result.error_code),
            {
                TopicPartition(topic.name, part.partition_index): LogDirReplica(
                    part.partition_size, part.offset_lag, part.is_future_key
                )
                for topic in result.topics
                for part in topic.partitions
            },
            result.total_bytes,
            result.usable_bytes,
        )
        for result in response.results
    }


async def _addresses(
    router: Router, broker_ids: Iterable[int] | None, timeout_ms: int | None
) -> list[BrokerAddress]:
    wanted = None
    if broker_ids is not None:
        wanted = [BrokerId(b) for b in arguments.numbers("broker_ids", broker_ids)]
    known = {b.broker_id: b for b in (await describe_cluster(router, timeout_ms)).brokers}
    if wanted is None:
        return list(known.values())
    missing = [b for b in wanted if b not in known]
    if missing:
        detail = f"no broker {missing[0]} in the cluster"
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, detail)
    return [known[b] for b in wanted]
