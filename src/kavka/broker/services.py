"""The parts of a broker that its request handlers may use.

`Broker` makes one `Services` when its metadata, id and registry are known, which is before the first request is
handled. A part that not every broker needs is imported and made when a handler first uses it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kavka.broker.configs.broker_config import BrokerConfig
    from kavka.broker.configs.effective_configs import Configs
    from kavka.broker.control.control_request_check import ControlRequestCheck
    from kavka.broker.control.control_requests import ControlRequests
    from kavka.broker.control.controller import Controller
    from kavka.broker.control.dynamic_configs import DynamicConfigs
    from kavka.broker.control.finalized_features import Features
    from kavka.broker.control.producer_ids import ProducerIdManager
    from kavka.broker.control.topics import Topics
    from kavka.broker.coordination.groups import GroupCoordinators
    from kavka.broker.coordination.marker_appends import MarkerAppender
    from kavka.broker.coordination.transactions import TransactionCoordinators
    from kavka.broker.coordination.verification import Verifier
    from kavka.broker.lazy_parts import LazyParts
    from kavka.broker.metadata.cache import MetadataCache
    from kavka.broker.metadata.encoded_topics import EncodedTopics
    from kavka.broker.partitions.current_leaders import CurrentLeaders
    from kavka.broker.partitions.replica_manager import ReplicaManager
    from kavka.broker.produce.batch_checks import BatchChecks
    from kavka.broker.quotas.quota_manager import QuotaManager
    from kavka.broker.replication.alter_log_dirs import AlterLogDirsManager
    from kavka.broker.replication.replication_manager import ReplicationManager
    from kavka.broker.requests.pace import Slices
    from kavka.broker.requests.purgatory import Purgatory
    from kavka.broker.security.parts import SecurityParts
    from kavka.broker.security.sasl_sessions import SaslSessions
    from kavka.core.fetch_session import FetchSessionCache
    from kavka.ids import BrokerId
    from kavka.io import Clock, Disk, Random
    from kavka.net.request_budget import RequestBudget
    from kavka.registry.interface import Registry


class Services:
    """A broker's parts, under the names that they have there."""

    def __init__(  # noqa: PLR0913  # one argument for each part
        self,
        *,
        broker_id: BrokerId,
        has_own_registry: bool,
        config: BrokerConfig,
        configs: Configs,
        clock: Clock,
        random: Random,
        disk: Disk,
        registry: Registry,
        slices: Slices,
        request_budget: RequestBudget,
        metadata: MetadataCache,
        features: Features,
        quotas: QuotaManager,
        replica_manager: ReplicaManager,
        topics: Topics,
        dynamic_configs: DynamicConfigs,
        controller: Controller,
        control_requests: ControlRequests,
        fetch_sessions: FetchSessionCache,
        fetch_purgatory: Purgatory,
        produce_purgatory: Purgatory,
        lazy: LazyParts,
        security: SecurityParts,
    ) -> None:
        """Take the parts of a broker that is about to serve."""
        self.broker_id = broker_id
        self.has_own_registry = has_own_registry
        self.config = config
        self.configs = configs
        self.clock = clock
        self.random = random
        self.disk = disk
        self.registry = registry
        self.slices = slices
        self.request_budget = request_budget
        self.metadata = metadata
        self.features = features
        self.quotas = quotas
        self.replica_manager = replica_manager
        self.topics = topics
        self.dynamic_configs = dynamic_configs
        self.controller = controller
        self.control_requests = control_requests
        self.fetch_sessions = fetch_sessions
        self.fetch_purgatory = fetch_purgatory
        self.produce_purgatory = produce_purgatory
        self.access_control = security.access_control
        """The authorizer, its ACLs and the audit; None where there is none of them."""
        self.tokens = security.tokens
        """The delegation tokens; None without delegation.token.secret.key."""
        self._security = security
        self._lazy = lazy

    @property
    def sasl_sessions(self) -> SaslSessions | None:
        """The sessions by SASL, which know users; None while no listener has SASL."""
        return self._security.sasl_sessions

    @cached_property
    def batch_checks(self) -> BatchChecks:
        """The checks of produced batches that leave the loop's thread."""
        return self._lazy.batch_checks.get()

    @cached_property
    def control_request_check(self) -> ControlRequestCheck:
        """The check of control requests that come over the network."""
        return self._lazy.control_request_check.get()

    @cached_property
    def current_leaders(self) -> CurrentLeaders:
        """The leaders to name in responses (KIP-951)."""
        return self._lazy.current_leaders.get()

    @cached_property
    def encoded_topics(self) -> EncodedTopics:
        """Topics in the encoding of Metadata."""
        return self._lazy.encoded_topics.get()

    @cached_property
    def groups(self) -> GroupCoordinators:
        """The group coordinators."""
        return self._lazy.groups.get()

    @cached_property
    def marker_appender(self) -> MarkerAppender:
        """The appends of transactions' markers."""
        return self._lazy.marker_appender.get()

    @cached_property
    def producer_ids(self) -> ProducerIdManager:
        """The producer id manager."""
        return self._lazy.producer_ids.get()

    @cached_property
    def transactions(self) -> TransactionCoordinators:
        """The transaction coordinators."""
        return self._lazy.transactions.get()

    @cached_property
    def verifier(self) -> Verifier:
        """The verifier of transactional partitions (KIP-890)."""
        return self._lazy.verifier.get()

    @cached_property
    def replication_manager(self) -> ReplicationManager:
        """The replication manager, which answers followers' fetches."""
        return self._lazy.replication_manager.get()

    @cached_property
    def alter_log_dirs(self) -> AlterLogDirsManager:
        """The moves of replicas between log directories."""
        return self._lazy.alter_log_dirs.get()
