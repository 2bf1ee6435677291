"""Forwarded methods of the blocking clients. Written by `make reference` from the asynchronous ones."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
    replica_log_dirs,
    replica_records,
    topics,
    transactions,
    user_credentials,
)
from kavka.client.consumer.batches import FetchedBatches
from kavka.client.lag import Lag
from kavka.client.list_offsets import OffsetAndTimestamp
from kavka.client.metadata import BrokerAddress
from kavka.client.metrics.names import Metrics
from kavka.client.producer.batch import Headers, RecordRange
from kavka.client.producer.record_future import RecordMetadata
from kavka.core.access.entries import Principal
from kavka.core.group_member.steps import GroupMetadata, OffsetAndMetadata
from kavka.core.transactional_producer.state import PreparedTxnState
from kavka.errors import KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.wire.messages.api_versions import ApiVersionsResponse

class AdminMethods:
    """See `kavka.client.Admin`."""

    def create_topics(
        self,
        new_topics: Sequence[topics.NewTopic],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, topics.CreatedTopic | KafkaError]:
        """Create topics, or only check whether they could be."""
    def delete_topics(
        self, names: Sequence[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Delete topics with all their records."""
    def create_partitions(
        self,
        wanted: Mapping[str, topics.NewPartitions],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Add partitions to topics; keys may go to other partitions from then on."""
    def list_topics(
        self, *, include_internal: bool = False, timeout_ms: int | None = None
    ) -> list[str]:
        """Return the names of all topics, sorted."""
    def describe_topics(
        self,
        names: Iterable[str] | None = None,
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, topics.TopicDescription | KafkaError]:
        """Return partitions, leaders and replicas of topics, of all topics without `names`. Creates none."""
    def eligible_leaders(
        self, names: Iterable[str], *, page_size: int = 2000, timeout_ms: int | None = None
    ) -> dict[TopicPartition, eligible_leaders.EligibleLeaders]:
        """Return the replicas that may lead although they are out of sync (KIP-966); nothing before Kafka 3.7."""
    def describe_acls(
        self, chosen: acls.AclFilter | None = None, *, timeout_ms: int | None = None
    ) -> list[acls.AclBinding]:
        """Return the ACLs that a filter chooses, all of them without one. Raise KafkaError, TimeoutError."""
    def create_acls(
        self, bindings: Iterable[acls.AclBinding], *, timeout_ms: int | None = None
    ) -> dict[acls.AclBinding, KafkaError | None]:
        """Create ACLs; one that is there already stays as it is."""
    def delete_acls(
        self, filters: Sequence[acls.AclFilter], *, timeout_ms: int | None = None
    ) -> list[list[acls.AclBinding] | KafkaError]:
        """Delete the ACLs that filters choose; return what each has removed, an ACL for the first that chose it."""
    def create_delegation_token(
        self,
        renewers: Iterable[Principal | str] = (),
        *,
        owner: Principal | str | None = None,
        max_lifetime_ms: int = -1,
        timeout_ms: int | None = None,
    ) -> delegation_tokens.DelegationToken:
        """Make a token for this client, or for another `owner` (`User:alice`), by which programs log in as the owner."""
    def renew_delegation_token(
        self, hmac: bytes, *, period_ms: int = -1, timeout_ms: int | None = None
    ) -> int:
        """Renew a token for a period from now (-1: the brokers' default); return its end. Raise KafkaError."""
    def expire_delegation_token(
        self, hmac: bytes, *, period_ms: int = -1, timeout_ms: int | None = None
    ) -> int:
        """Change the end of a token to a period from now, at once without one; return its end. Raise KafkaError."""
    def describe_delegation_tokens(
        self, owners: Iterable[Principal | str] | None = None, *, timeout_ms: int | None = None
    ) -> list[delegation_tokens.DelegationToken]:
        """Return the tokens of owners (which they own or may renew), all without, that this client may see."""
    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, reassignments.Reassignment]:
        """Return the moves in progress of some partitions, by default all; what does not move is left out."""
    def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begin to move partitions to these brokers, the preferred leader first; None stops a move in progress."""
    def elect_leaders(
        self,
        election_type: elections.ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders of partitions, by default of all; None stands for a new leader."""
    def describe_cluster(
        self, *, include_authorized_operations: bool = False, timeout_ms: int | None = None
    ) -> nodes.ClusterDescription:
        """Return the brokers, the controller and the cluster's id."""
    def api_versions(
        self, broker_ids: Iterable[int] | None = None, *, timeout_ms: int | None = None
    ) -> dict[BrokerAddress, ApiVersionsResponse | Exception]:
        """Return what brokers, by default all, speak: APIs with versions, and features."""
    def describe_features(self, *, timeout_ms: int | None = None) -> features.FeatureMetadata:
        """Return which features a broker supports, and which levels the cluster has finalised (KIP-584)."""
    def update_features(
        self,
        updates: Mapping[str, features.FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Change the levels of features, or only check whether they could be changed."""
    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> dict[str, list[user_credentials.ScramCredentialInfo] | KafkaError]:
        """Return by which SCRAM mechanisms users, by default all that have any, can be authenticated (KIP-554)."""
    def alter_user_scram_credentials(
        self,
        changes: Sequence[user_credentials.ScramUpsertion | user_credentials.ScramDeletion],
        *,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Create, replace and delete SCRAM credentials; each user's changes are made together. No password is sent."""
    def describe_log_dirs(
        self,
        broker_ids: Iterable[int] | None = None,
        *,
        topic_partitions: dict[str, Sequence[int]] | None = None,
        timeout_ms: int | None = None,
    ) -> dict[BrokerId, dict[str, nodes.LogDir] | Exception]:
        """Return the directories of brokers, by default all, with the replicas in them, by default all."""
    def describe_replica_log_dirs(
        self, replicas: Iterable[replica_log_dirs.Replica], *, timeout_ms: int | None = None
    ) -> dict[replica_log_dirs.Replica, replica_log_dirs.ReplicaLogDirs | Exception]:
        """Return in which directories of their brokers replicas lie; in none where the broker has none of it."""
    def alter_replica_log_dirs(
        self, targets: Mapping[replica_log_dirs.Replica, str], *, timeout_ms: int | None = None
    ) -> dict[replica_log_dirs.Replica, Exception | None]:
        """Begin to move replicas to other directories of their brokers."""
    def describe_configs(
        self,
        resources: Iterable[configs.ConfigResource]
        | Mapping[configs.ConfigResource, Sequence[str] | None],
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[configs.ConfigResource, list[configs.ConfigEntry] | KafkaError]:
        """Return settings of resources; a mapping names the settings that are wanted of each (None: all)."""
    def incremental_alter_configs(
        self,
        changes: Mapping[configs.ConfigResource, Sequence[configs.ConfigOp]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[configs.ConfigResource, KafkaError | None]:
        """Change single settings; the others stay (KIP-339)."""
    def describe_client_quotas(
        self,
        components: Iterable[quotas.QuotaComponent] = (),
        *,
        strict: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[quotas.ClientQuotaEntity, dict[str, float]]:
        """Return the quotas of entities that have all these parts, and, if `strict`, no other."""
    def alter_client_quotas(
        self,
        changes: Mapping[quotas.ClientQuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[quotas.ClientQuotaEntity, KafkaError | None]:
        """Set quotas of users, clients and addresses; None removes one."""
    def alter_configs(
        self,
        replacement: Mapping[configs.ConfigResource, Mapping[str, str | float | bool | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[configs.ConfigResource, KafkaError | None]:
        """Replace all settings of resources: what is not named goes back to its default."""
    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        """Return offsets by `OffsetSpec` or by time; offset -1 where no record is that young."""
    def lags(
        self,
        positions: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Lag | KafkaError]:
        """Return how far positions (next offsets, as groups commit them) lie behind, in records and in time."""
    def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete the records below an offset (-1: all) and return the new first offsets."""
    def fetch_replicas(
        self,
        broker_id: BrokerId,
        offsets: Mapping[TopicPartition, int],
        *,
        max_bytes: int = 1 << 20,
        max_wait_ms: int = 1000,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, replica_records.ReplicaRecords | KafkaError]:
        """Return the batches that a broker's replicas hold from offsets on, whether it leads or follows."""
    def list_groups(
        self,
        *,
        states: Sequence[str] = (),
        types: Sequence[str] = (),
        timeout_ms: int | None = None,
        failures: dict[BrokerId, Exception] | None = None,
    ) -> list[groups.GroupListing]:
        """Return all groups, or those in certain states and of certain types."""
    def describe_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, groups.GroupDescription | Exception]:
        """Return state and members of groups."""
    def delete_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, Exception | None]:
        """Delete groups without members, with their offsets."""
    def remove_members(
        self,
        group_id: str,
        instance_ids: Sequence[str] | None = None,
        *,
        reason: str = "removed by an admin",
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Remove static members from a group (KIP-345), all members, also dynamic ones, without `instance_ids`."""
    def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return committed offsets, by default all; partitions without one are left out."""
    def list_offsets_of_groups(
        self,
        group_ids: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata] | Exception]:
        """Return the committed offsets of several groups; a mapping names the partitions of each (None: all)."""
    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set committed offsets of a group without members."""
    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Forget committed offsets of topics that no member is subscribed to."""
    def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        longer_than_ms: int = -1,
        timeout_ms: int | None = None,
        failures: dict[BrokerId, Exception] | None = None,
    ) -> dict[BrokerId, list[transactions.TransactionListing]]:
        """Return the transactional ids that each broker coordinates, all or those that pass the filters."""
    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, transactions.TransactionDescription | Exception]:
        """Return the state of transactional ids; TRANSACTIONAL_ID_NOT_FOUND for an unknown one."""
    def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: BrokerId | None = None,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, list[transactions.ProducerState] | KafkaError]:
        """Return the producers that partitions remember: their leaders, or the replicas of one broker."""
    def abort_transaction(
        self, hanging: transactions.HangingTransaction, *, timeout_ms: int | None = None
    ) -> None:
        """Write an abort marker to one partition, bypassing the coordinator: for a hanging transaction."""
    def end_transaction(
        self,
        transactional_id: str,
        state: PreparedTxnState,
        *,
        committed: bool,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit or abort a transaction that another process has prepared, in its producer's place (KIP-939)."""
    def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, Exception | None]:
        """Fence the producers of transactional ids, and abort what they have open."""
    def force_terminate_transaction(
        self, transactional_id: str, *, timeout_ms: int | None = None
    ) -> None:
        """Abort what a transactional id has open, also if it is prepared, and fence its producer. Raise KafkaError."""
    def metrics(self) -> Metrics:
        """Return the metrics of this client, in the names of Kafka's Java clients, as they are now."""

class ConsumerMethods:
    """See `kavka.client.Consumer`."""

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a group deciding; those that were assigned before keep their positions."""
    def unsubscribe(self) -> None:
        """Read nothing; leave the group, then raise what the listener raised. `close` includes it: no effect there."""
    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are assigned now."""
    def subscription(self) -> list[str]:
        """Return the topics subscribed to; of a pattern, those that match."""
    @property
    def commits_by_itself(self) -> bool:
        """Return whether positions are committed in the background."""
    @property
    def resets_to(self) -> str:
        """Return `auto.offset.reset`: where a position goes that is not in the log."""
    @property
    def reads_committed(self) -> bool:
        """Return whether records of open and aborted transactions are hidden."""
    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Read on at an offset. Raise ValueError when the partition is not assigned or the offset negative."""
    def rewind(self, batches: Sequence[FetchedBatches]) -> None:
        """Read the batches of one poll again, those whose partitions have not been moved or taken away since."""
    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read on at the first record; without `partitions`, of all assigned ones."""
    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read on after the last record; without `partitions`, of all assigned ones."""
    def seek_to_time(self, timestamps_ms: Mapping[TopicPartition, int]) -> None:
        """Read on at the first record that is not older than the time; without one, at the end."""
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these partitions until `resume`; they stay assigned."""
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Undo `pause`."""
    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions."""
    def position(self, topic_partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """Return the offset of the next record, looking it up if need be. Raise TimeoutError."""
    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Return how many offsets the position is behind the end, as of the last fetch; None before one."""
    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition. Raise KafkaError, TimeoutError."""
    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last visible record of each partition. Raise KafkaError, TimeoutError."""
    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record that is not older than the time, None where there is none."""
    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[TopicPartition]:
        """Return the partitions of a topic. Raise TimeoutError when it does not exist."""
    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets, without any all positions, and wait for the response."""
    def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets, None where there is none. Raise KafkaError, TimeoutError."""
    def group_metadata(self) -> GroupMetadata:
        """Return the consumer's id and generation in its group, for `Producer.send_offsets_to_transaction`."""
    def metrics(self) -> Metrics:
        """Return the metrics of this client, in the names of Kafka's Java clients, as they are now."""

class ProducerMethods:
    """See `kavka.client.Producer`."""

    def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTxnState | None:
        """Take over the transactional id: once, before anything is sent."""
    def resume_transactions(self, identity: PreparedTxnState) -> None:
        """Continue as the producer that another process has initialised, instead of `init_transactions`."""
    @property
    def transaction_identity(self) -> PreparedTxnState:
        """The producer id and epoch in which the next transaction is written; -1 before there are any."""
    def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from now on is part of it. Raise FatalError, RuntimeError."""
    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: GroupMetadata,
    ) -> None:
        """Commit offsets of a group if and only if the transaction is committed; `Consumer.group_metadata` says whose."""
    def complete_transaction(self, state: PreparedTxnState | None) -> None:
        """Commit the transaction that is prepared if `state` is its name, else abort it (KIP-939)."""
    @property
    def can_abort(self) -> bool:
        """Return whether there is a transaction that `abort_transaction` would abort."""
    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic, creating it where brokers do so. Raise TimeoutError, KafkaError."""
    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """Send a record and wait until it is written. Raise as `append`, or what went wrong; it waits for memory."""
    def send_many(
        self,
        topic: str,
        records: Iterable[tuple[Any, Any]],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[RecordRange]:
        """Send (key, value) pairs in order and wait until all are written; return where they went."""
    def send_table(
        self, topic: str, table: Any, *, partition: int | None = None
    ) -> list[RecordRange]:
        """Send the rows of an Arrow table or record batch and wait until all are written; return where they went."""
    def metrics(self) -> Metrics:
        """Return the metrics of this client, in the names of Kafka's Java clients, as they are now."""
