"""The admin client's public face: one method per thing that can be done; the modules beside it do it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from kavka.client.admin import configs, eligible_leaders, groups, nodes, records, topics
from kavka.client.admin.router import Router
from kavka.client.cluster import Cluster
from kavka.client.config import ADMIN, Config
from kavka.client.consumer.subscription import OffsetAndMetadata
from kavka.client.list_offsets import OffsetAndTimestamp
from kavka.client.metadata import BrokerAddress
from kavka.doors import Chance, Clock, Network
from kavka.errors import KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.net.clock import SystemChance, SystemClock
from kavka.net.network import TcpNetwork
from kavka.wire.messages.api_versions import ApiVersionsResponse


class Admin:
    """Manages a cluster. Use as an asynchronous context manager, or `start` and `close`.

    Calls about several things answer for each of them: the value is the result (None where there is none to tell)
    or the KafkaError with which a broker refused it. What concerns the whole call is raised: TimeoutError after
    `timeout_ms` (default `default.api.timeout.ms`), KafkaError, ConnectionError.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
    ) -> None:
        """Check the settings (ValueError names the wrong one); nothing is opened before `start`."""
        checked = Config(ADMIN, config)
        self._config = checked
        self._network = network or TcpNetwork()
        self._clock = clock or SystemClock()
        self._chance = chance or SystemChance()
        self._retries = checked.integer("retries")
        self._timeout_ms = checked.integer("default.api.timeout.ms")

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close."""
        await self.close()

    async def start(self) -> None:
        """Connect. Raise ConnectionError when none of `bootstrap.servers` answers."""
        cluster = Cluster(
            self._config, network=self._network, clock=self._clock, chance=self._chance
        )
        try:
            await cluster.start()
        except BaseException:
            await cluster.close()
            raise
        self._router = Router(cluster, self._retries, self._timeout_ms)

    async def close(self) -> None:
        """Close the connections."""
        await self._router.cluster.close()

    # Topics

    async def create_topics(
        self,
        new_topics: Sequence[topics.NewTopic],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, topics.CreatedTopic | KafkaError]:
        """Create topics, or only check whether they could be."""
        return await topics.create_topics(self._router, new_topics, validate_only, timeout_ms)

    async def delete_topics(
        self, names: Sequence[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Delete topics with all their records."""
        return await topics.delete_topics(self._router, names, timeout_ms)

    async def create_partitions(
        self,
        wanted: Mapping[str, topics.NewPartitions],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Give topics more partitions; keys may go to other partitions from then on."""
        return await topics.create_partitions(self._router, wanted, validate_only, timeout_ms)

    async def list_topics(
        self, *, include_internal: bool = False, timeout_ms: int | None = None
    ) -> list[str]:
        """Return the names of all topics, sorted."""
        found = await topics.all_topics(self._router, timeout_ms)
        return sorted(n for n, topic in found.items() if include_internal or not topic.is_internal)

    async def describe_topics(
        self, names: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> dict[str, topics.TopicDescription | KafkaError]:
        """Return partitions, leaders and replicas of topics, of all topics without `names`. Creates none."""
        if names is None:
            return {**await topics.all_topics(self._router, timeout_ms)}
        return await topics.describe_topics(self._router, names, timeout_ms)

    async def eligible_leaders(
        self, names: Iterable[str], *, page_size: int = 2000, timeout_ms: int | None = None
    ) -> dict[TopicPartition, eligible_leaders.EligibleLeaders]:
        """Return the replicas that may lead although they are out of sync (KIP-966); nothing before Kafka 3.7."""
        return await eligible_leaders.eligible_leaders(self._router, names, page_size, timeout_ms)

    # Brokers

    async def describe_cluster(self, *, timeout_ms: int | None = None) -> nodes.ClusterDescription:
        """Return the brokers, the controller and the cluster's id."""
        return await nodes.describe_cluster(self._router, timeout_ms)

    async def api_versions(
        self, broker_ids: Iterable[int] | None = None, *, timeout_ms: int | None = None
    ) -> dict[BrokerAddress, ApiVersionsResponse | Exception]:
        """Return what brokers, by default all, speak: APIs with versions, and features."""
        return await nodes.api_versions(self._router, broker_ids, timeout_ms)

    async def describe_log_dirs(
        self,
        broker_ids: Iterable[int] | None = None,
        *,
        topic_partitions: dict[str, Sequence[int]] | None = None,
        timeout_ms: int | None = None,
    ) -> dict[BrokerId, dict[str, nodes.LogDir] | Exception]:
        """Return the directories of brokers, by default all, with the replicas in them, by default all."""
        return await nodes.describe_log_dirs(self._router, broker_ids, topic_partitions, timeout_ms)

    # Configurations

    async def describe_configs(
        self,
        resources: Iterable[configs.ConfigResource]
        | Mapping[configs.ConfigResource, Sequence[str] | None],
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[configs.ConfigResource, list[configs.ConfigEntry] | KafkaError]:
        """Return settings of resources; a mapping names the settings that are wanted of each (None: all)."""
        wanted = dict(resources) if isinstance(resources, Mapping) else dict.fromkeys(resources)
        return await configs.describe_configs(
            self._router, wanted, include_synonyms, include_documentation, timeout_ms
        )

    async def incremental_alter_configs(
        self,
        changes: Mapping[configs.ConfigResource, Sequence[configs.ConfigOp]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[configs.ConfigResource, KafkaError | None]:
        """Change single settings; the others stay (KIP-339)."""
        return await configs.incremental_alter_configs(
            self._router, changes, validate_only, timeout_ms
        )

    async def alter_configs(
        self,
        replacement: Mapping[configs.ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[configs.ConfigResource, KafkaError | None]:
        """Replace all settings of resources: what is not named goes back to its default."""
        return await configs.alter_configs(self._router, replacement, validate_only, timeout_ms)

    # Records

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        """Return offsets by `OffsetSpec` or by time; offset -1 where no record is that young."""
        return await records.find_offsets(self._router, wanted, read_committed, timeout_ms)

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete the records below an offset (-1: all) and return the new first offsets."""
        return await records.delete_records(self._router, before, timeout_ms)

    # Groups

    async def list_groups(
        self,
        *,
        states: Sequence[str] = (),
        types: Sequence[str] = (),
        timeout_ms: int | None = None,
    ) -> list[groups.GroupListing]:
        """Return all groups, or those in certain states and of certain types."""
        return await groups.list_groups(self._router, states, types, timeout_ms)

    async def describe_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, groups.GroupDescription | Exception]:
        """Return state and members of groups."""
        return await groups.describe_groups(self._router, group_ids, timeout_ms)

    async def delete_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, Exception | None]:
        """Delete groups without members, with their offsets."""
        return await groups.delete_groups(self._router, group_ids, timeout_ms)

    async def remove_members(
        self, group_id: str, instance_ids: Sequence[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Remove static members from a group (KIP-345)."""
        return await groups.remove_members(self._router, group_id, instance_ids, timeout_ms)

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return committed offsets, by default all; partitions without one are left out."""
        return await groups.list_group_offsets(
            self._router, group_id, partitions, require_stable, timeout_ms
        )

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set committed offsets of a group without members."""
        return await groups.alter_group_offsets(self._router, group_id, offsets, timeout_ms)

    async def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Forget committed offsets of topics that no member is subscribed to."""
        return await groups.delete_group_offsets(self._router, group_id, partitions, timeout_ms)
