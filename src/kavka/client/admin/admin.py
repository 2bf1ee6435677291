"""The admin client's public face: one method per thing that can be done; the modules beside it do it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kavka.client import arguments
from kavka.client.admin import (
    acls,
    configs,
    delegation_tokens,
    elections,
    eligible_leaders,
    features,
    groups,
    nodes,
    quotas,
    reassignments,
    records,
    replica_log_dirs,
    replica_records,
    topics,
    transactions,
    user_credentials,
)
from kavka.client.admin.router import Router
from kavka.client.client import Client
from kavka.client.config import ADMIN
from kavka.client.lag import Lag, lags
from kavka.client.list_offsets import OffsetAndTimestamp
from kavka.client.metadata import BrokerAddress
from kavka.client.partitions import by_partition
from kavka.client.pending_calls import all_until_closed
from kavka.core.access.entries import Principal
from kavka.core.group_member.steps import OffsetAndMetadata
from kavka.core.transactional_producer.state import PreparedTxnState
from kavka.errors import KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.wire.messages.api_versions import ApiVersionsResponse


@all_until_closed
class Admin(Client):
    """Manages a cluster. Use as an asynchronous context manager, or `start` and `close`.

    Calls about several things answer for each of them: the value is the result (None where there is none)
    or the KafkaError with which a broker refused it. What concerns the whole call is raised: TimeoutError after
    `timeout_ms` (default `default.api.timeout.ms`), KafkaError, ConnectionError.
    """

    _catalogue = ADMIN
    _handles_records = False

    def _build(self) -> None:
        retries = self._config.integer("retries")
        timeout_ms = self._config.integer("default.api.timeout.ms")
        self._requests = Router(self._cluster, retries, timeout_ms)

    @property
    def _router(self) -> Router:
        self._require_open()
        return self._requests

    async def close(self) -> None:
        """Close the connections. Calls of other tasks end with RuntimeError."""
        if self._is_open:
            self._require_loop()
            self._is_open = False
            self._calls.end()
            await self._cluster.close()
            self._stop_reporting()

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
        """Add partitions to topics; keys may go to other partitions from then on."""
        return await topics.create_partitions(self._router, wanted, validate_only, timeout_ms)

    async def list_topics(
        self, *, include_internal: bool = False, timeout_ms: int | None = None
    ) -> list[str]:
        """Return the names of all topics, sorted."""
        found = await topics.all_topics(self._router, timeout_ms)
        return sorted(n for n, topic in found.items() if include_internal or not topic.is_internal)

    async def describe_topics(
        self,
        names: Iterable[str] | None = None,
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, topics.TopicDescription | KafkaError]:
        """Return partitions, leaders and replicas of topics, of all topics without `names`. Creates none."""
        include = include_authorized_operations
        if names is None:
            return {**await topics.all_topics(self._router, timeout_ms, include)}
        return await topics.describe_topics(self._router, names, include, timeout_ms)

    async def eligible_leaders(
        self, names: Iterable[str], *, page_size: int = 2000, timeout_ms: int | None = None
    ) -> dict[TopicPartition, eligible_leaders.EligibleLeaders]:
        """Return the replicas that may lead although they are out of sync (KIP-966); nothing before Kafka 3.7."""
        return await eligible_leaders.eligible_leaders(self._router, names, page_size, timeout_ms)

    # ACLs

    async def describe_acls(
        self, chosen: acls.AclFilter | None = None, *, timeout_ms: int | None = None
    ) -> list[acls.AclBinding]:
        """Return the ACLs that a filter chooses, all of them without one. Raise KafkaError, TimeoutError."""
        return await acls.describe_acls(
            self._router, acls.AclFilter() if chosen is None else chosen, timeout_ms
        )

    async def create_acls(
        self, bindings: Iterable[acls.AclBinding], *, timeout_ms: int | None = None
    ) -> dict[acls.AclBinding, KafkaError | None]:
        """Create ACLs; one that is there already stays as it is."""
        return await acls.create_acls(self._router, bindings, timeout_ms)

    async def delete_acls(
        self, filters: Sequence[acls.AclFilter], *, timeout_ms: int | None = None
    ) -> list[list[acls.AclBinding] | KafkaError]:
        """Delete the ACLs that filters choose; return what each has removed, an ACL for the first that chose it."""
        return await acls.delete_acls(self._router, filters, timeout_ms)

    # Delegation tokens

    async def create_delegation_token(
        self,
        renewers: Iterable[Principal | str] = (),
        *,
        owner: Principal | str | None = None,
        max_lifetime_ms: int = -1,
        timeout_ms: int | None = None,
    ) -> delegation_tokens.DelegationToken:
        """Make a token for this client, or for another `owner` (`User:alice`), by which programs log in as the owner.

        Raise KafkaError, TimeoutError, ValueError for a principal that is none.
        """
        return await delegation_tokens.create(
            self._router, renewers, owner, max_lifetime_ms, timeout_ms
        )

    async def renew_delegation_token(
        self, hmac: bytes, *, period_ms: int = -1, timeout_ms: int | None = None
    ) -> int:
        """Renew a token for a period from now (-1: the brokers' default); return its end. Raise KafkaError."""
        return await delegation_tokens.renew(self._router, hmac, period_ms, timeout_ms)

    async def expire_delegation_token(
        self, hmac: bytes, *, period_ms: int = -1, timeout_ms: int | None = None
    ) -> int:
        """Change the end of a token to a period from now, at once without one; return its end. Raise KafkaError."""
        return await delegation_tokens.expire(self._router, hmac, period_ms, timeout_ms)

    async def describe_delegation_tokens(
        self, owners: Iterable[Principal | str] | None = None, *, timeout_ms: int | None = None
    ) -> list[delegation_tokens.DelegationToken]:
        """Return the tokens of owners (which they own or may renew), all without, that this client may see."""
        return await delegation_tokens.describe(self._router, owners, timeout_ms)

    # Reassignments

    async def list_partition_reassignments(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, reassignments.Reassignment]:
        """Return the moves in progress of some partitions, by default all; what does not move is left out."""
        return await reassignments.list_reassignments(self._router, partitions, timeout_ms)

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begin to move partitions to these brokers, the preferred leader first; None stops a move in progress."""
        return await reassignments.alter_reassignments(self._router, targets, timeout_ms)

    async def elect_leaders(
        self,
        election_type: elections.ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders of partitions, by default of all; None stands for a new leader.

        ELECTION_NOT_NEEDED is the outcome where the leader is the right one already; asked about all partitions,
        brokers leave those out.
        """
        return await elections.elect_leaders(self._router, election_type, partitions, timeout_ms)

    # Brokers

    async def describe_cluster(
        self, *, include_authorized_operations: bool = False, timeout_ms: int | None = None
    ) -> nodes.ClusterDescription:
        """Return the brokers, the controller and the cluster's id."""
        return await nodes.describe_cluster(self._router, timeout_ms, include_authorized_operations)

    async def api_versions(
        self, broker_ids: Iterable[int] | None = None, *, timeout_ms: int | None = None
    ) -> dict[BrokerAddress, ApiVersionsResponse | Exception]:
        """Return what brokers, by default all, speak: APIs with versions, and features."""
        return await nodes.api_versions(self._router, broker_ids, timeout_ms)

    async def describe_features(self, *, timeout_ms: int | None = None) -> features.FeatureMetadata:
        """Return which features a broker supports, and which levels the cluster has finalised (KIP-584)."""
        return await features.describe_features(self._router, timeout_ms)

    async def update_features(
        self,
        updates: Mapping[str, features.FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Change the levels of features, or only check whether they could be changed."""
        return await features.update_features(self._router, updates, validate_only, timeout_ms)

    # Users

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> dict[str, list[user_credentials.ScramCredentialInfo] | KafkaError]:
        """Return by which SCRAM mechanisms users, by default all that have any, can be authenticated (KIP-554)."""
        return await user_credentials.describe(self._router, users, timeout_ms)

    async def alter_user_scram_credentials(
        self,
        changes: Sequence[user_credentials.ScramUpsertion | user_credentials.ScramDeletion],
        *,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Create, replace and delete SCRAM credentials; each user's changes are made together. No password is sent."""
        random = self._random.random_bytes
        return await user_credentials.alter(self._router, changes, random, timeout_ms)

    async def describe_log_dirs(
        self,
        broker_ids: Iterable[int] | None = None,
        *,
        topic_partitions: dict[str, Sequence[int]] | None = None,
        timeout_ms: int | None = None,
    ) -> dict[BrokerId, dict[str, nodes.LogDir] | Exception]:
        """Return the directories of brokers, by default all, with the replicas in them, by default all."""
        return await nodes.describe_log_dirs(self._router, broker_ids, topic_partitions, timeout_ms)

    async def describe_replica_log_dirs(
        self, replicas: Iterable[replica_log_dirs.Replica], *, timeout_ms: int | None = None
    ) -> dict[replica_log_dirs.Replica, replica_log_dirs.ReplicaLogDirs | Exception]:
        """Return in which directories of their brokers replicas lie; in none where the broker has none of it."""
        return await replica_log_dirs.describe_replica_log_dirs(self._router, replicas, timeout_ms)

    async def alter_replica_log_dirs(
        self, targets: Mapping[replica_log_dirs.Replica, str], *, timeout_ms: int | None = None
    ) -> dict[replica_log_dirs.Replica, Exception | None]:
        """Begin to move replicas to other directories of their brokers.

        REPLICA_NOT_AVAILABLE is the outcome where the broker has no such replica yet: it will be made there.
        """
        return await replica_log_dirs.alter_replica_log_dirs(self._router, targets, timeout_ms)

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
        return await configs.describe_configs(
            self._router, resources, include_synonyms, include_documentation, timeout_ms
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

    async def describe_client_quotas(
        self,
        components: Iterable[quotas.QuotaComponent] = (),
        *,
        strict: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[quotas.ClientQuotaEntity, dict[str, float]]:
        """Return the quotas of entities that have all these parts, and, if `strict`, no other."""
        return await quotas.describe_client_quotas(self._router, components, strict, timeout_ms)

    async def alter_client_quotas(
        self,
        changes: Mapping[quotas.ClientQuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[quotas.ClientQuotaEntity, KafkaError | None]:
        """Set quotas of users, clients and addresses; None removes one."""
        return await quotas.alter_client_quotas(self._router, changes, validate_only, timeout_ms)

    async def alter_configs(
        self,
        replacement: Mapping[configs.ConfigResource, Mapping[str, str | float | bool | None]],
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

    async def lags(
        self,
        positions: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Lag | KafkaError]:
        """Return how far positions (next offsets, as groups commit them) lie behind, in records and in time."""
        return await lags(
            self._cluster,
            by_partition(positions),
            now_ms=self._clock.now_ms(),
            read_committed=read_committed,
            timeout_ms=self._router.timeout_ms(timeout_ms),
            unknown_after=records.UNKNOWN_AFTER,
        )

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete the records below an offset (-1: all) and return the new first offsets."""
        return await records.delete_records(self._router, before, timeout_ms)

    async def fetch_replicas(
        self,
        broker_id: BrokerId,
        offsets: Mapping[TopicPartition, int],
        *,
        max_bytes: int = 1 << 20,
        max_wait_ms: int = 1000,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, replica_records.ReplicaRecords | KafkaError]:
        """Return the batches that a broker's replicas hold from offsets on, whether it leads or follows.

        At most `max_bytes` of each partition, but a whole batch; the broker waits for the first byte.
        """
        return await replica_records.fetch_replicas(
            self._router, broker_id, offsets, max_bytes, max_wait_ms, timeout_ms
        )

    # Groups

    async def list_groups(
        self,
        *,
        states: Sequence[str] = (),
        types: Sequence[str] = (),
        timeout_ms: int | None = None,
        failures: dict[BrokerId, Exception] | None = None,
    ) -> list[groups.GroupListing]:
        """Return all groups, or those in certain states and of certain types.

        Raise where a broker fails or does not answer. With `failures`, its error is put there instead, and the groups
        of the others are returned.
        """
        return await groups.list_groups(self._router, states, types, timeout_ms, failures)

    async def describe_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, groups.GroupDescription | Exception]:
        """Return state and members of groups."""
        return await groups.describe_groups(
            self._router, group_ids, include_authorized_operations, timeout_ms
        )

    async def delete_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, Exception | None]:
        """Delete groups without members, with their offsets."""
        return await groups.delete_groups(self._router, group_ids, timeout_ms)

    async def remove_members(
        self,
        group_id: str,
        instance_ids: Sequence[str] | None = None,
        *,
        reason: str = "removed by an admin",
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Remove static members from a group (KIP-345), all members, also dynamic ones, without `instance_ids`.

        Outcomes are by instance id, of dynamic members by member id.
        """
        return await groups.remove_members(self._router, group_id, instance_ids, reason, timeout_ms)

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

    async def list_offsets_of_groups(
        self,
        group_ids: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata] | Exception]:
        """Return the committed offsets of several groups; a mapping names the partitions of each (None: all)."""
        wanted = (
            arguments.by("group_ids", group_ids, str)
            if isinstance(group_ids, Mapping)
            else dict.fromkeys(arguments.names("group_ids", group_ids))
        )
        return await self._router.gather(
            (
                group_id,
                groups.list_group_offsets(
                    self._router, group_id, partitions, require_stable, timeout_ms
                ),
            )
            for group_id, partitions in wanted.items()
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

    # Transactions

    async def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        longer_than_ms: int = -1,
        timeout_ms: int | None = None,
        failures: dict[BrokerId, Exception] | None = None,
    ) -> dict[BrokerId, list[transactions.TransactionListing]]:
        """Return the transactional ids that each broker coordinates, all or those that pass the filters.

        `longer_than_ms` takes transactions that have been open for longer; negative takes all. `failures` as with
        `list_groups`.
        """
        return await transactions.list_transactions(
            self._router, states, producer_ids, longer_than_ms, timeout_ms, failures
        )

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, transactions.TransactionDescription | Exception]:
        """Return the state of transactional ids; TRANSACTIONAL_ID_NOT_FOUND for an unknown one."""
        return await transactions.describe_transactions(self._router, transactional_ids, timeout_ms)

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: BrokerId | None = None,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, list[transactions.ProducerState] | KafkaError]:
        """Return the producers that partitions remember: their leaders, or the replicas of one broker."""
        return await transactions.describe_producers(
            self._router, partitions, broker_id, timeout_ms
        )

    async def abort_transaction(
        self, hanging: transactions.HangingTransaction, *, timeout_ms: int | None = None
    ) -> None:
        """Write an abort marker to one partition, bypassing the coordinator: for a hanging transaction.

        Raise KafkaError, TimeoutError.
        """
        await transactions.abort_transaction(self._router, hanging, timeout_ms)

    async def end_transaction(
        self,
        transactional_id: str,
        state: PreparedTxnState,
        *,
        committed: bool,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit or abort a transaction that another process has prepared, in its producer's place (KIP-939).

        It is repeated until a coordinator has stored the outcome, and the same call may be made again after a
        TimeoutError or a crash, as long as no transaction was begun with the transactional id since: below
        transaction.version 2 the producer's next transaction has the same `state`, and would be ended.

        Raise KafkaError: PRODUCER_FENCED or INVALID_PRODUCER_EPOCH when the id has a later epoch (a timeout, a new
        producer or an administrator has aborted the transaction, or in version 2 it has ended and another has begun),
        INVALID_PRODUCER_ID_MAPPING when the id has another producer id or is forgotten, INVALID_TXN_STATE when it ended
        the other way (from brokers up to Apache Kafka 4.1 also where it was aborted) or nothing was written to it.
        """
        await transactions.end_transaction(
            self._router, transactional_id, state, committed, timeout_ms
        )

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, Exception | None]:
        """Fence the producers of transactional ids, and abort what they have open."""
        return await transactions.fence_producers(self._router, transactional_ids, timeout_ms)

    async def force_terminate_transaction(
        self, transactional_id: str, *, timeout_ms: int | None = None
    ) -> None:
        """Abort what a transactional id has open, also if it is prepared, and fence its producer. Raise KafkaError."""
        outcome = (await self.fence_producers([transactional_id], timeout_ms=timeout_ms))[
            transactional_id
        ]
        if outcome is not None:
            raise outcome
