"""Parts that not every broker needs: they are imported and made when they are first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kavka.broker.context import BrokerContext
from kavka.broker.control.controller import Controller
from kavka.broker.control.topics import Topics
from kavka.broker.lazy import Lazy
from kavka.broker.metadata.cache import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kavka.broker.partitions.partition_events import PartitionEvents
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.requests.purgatory import Purgatory
from kavka.net.request_budget import RequestBudget

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kavka.broker.control.control_request_check import ControlRequestCheck
    from kavka.broker.control.producer_ids import ProducerIdManager
    from kavka.broker.coordination.coordinators import Coordinators
    from kavka.broker.coordination.group_coordinators import GroupCoordinators
    from kavka.broker.coordination.marker_appends import MarkerAppender
    from kavka.broker.coordination.transaction_coordinators import TransactionCoordinators
    from kavka.broker.coordination.verification import Verifier
    from kavka.broker.fetch.fetch_reader import ReadableLogs
    from kavka.broker.metadata.encoded_topics import EncodedTopics
    from kavka.broker.partitions.cleaner import Cleaner
    from kavka.broker.partitions.current_leaders import CurrentLeaders
    from kavka.broker.produce.batch_checks import BatchChecks
    from kavka.broker.replication.alter_log_dirs import AlterLogDirsManager
    from kavka.broker.replication.replication_manager import ReplicationManager
    from kavka.core.transaction_markers.events import MarkerCodes, TransactionMarkers


class LazyParts:
    """The lazily made parts of one broker."""

    def __init__(
        self,
        context: BrokerContext,
        partition_events: PartitionEvents,
        replica_manager: ReplicaManager,
        controller: Controller,
        topics: Topics,
        request_budget: RequestBudget,
        coordinators: dict[str, Coordinators[Any]],
        produce_purgatory: Purgatory,
    ) -> None:
        """Make nothing yet; `coordinators` of an internal topic are entered, by the topic, when they are made."""
        self._context = context
        self._partition_events = partition_events
        self._replica_manager = replica_manager
        self._controller = controller
        self._topics = topics
        self._request_budget = request_budget
        self._coordinators = coordinators
        self._produce_purgatory = produce_purgatory
        self.encoded_topics = Lazy(self._make_encoded_topics)
        self.current_leaders = Lazy(self._make_current_leaders)
        self.batch_checks = Lazy(self._make_batch_checks)
        self.control_request_check = Lazy(self._make_control_request_check)
        self.producer_ids = Lazy(self._make_producer_ids)
        self.groups = Lazy(self._make_groups)
        self.transactions = Lazy(self._make_transactions)
        self.marker_appender = Lazy(self._make_marker_appender)
        self.verifier = Lazy(self._make_verifier)
        self.replication_manager = Lazy(self._make_replication_manager)
        self.alter_log_dirs = Lazy(self._make_alter_log_dirs)
        self.cleaner = Lazy(self._make_cleaner)
        self.readable_logs = Lazy(self._make_readable_logs)

    def coordinators_of(self, topic: str) -> Coordinators[Any] | None:
        """Return the coordinators over an internal topic; None for any other topic."""
        if topic == OFFSETS_TOPIC:
            return self.groups.get()
        return self.transactions.get() if topic == TRANSACTIONS_TOPIC else None

    def _make_encoded_topics(self) -> EncodedTopics:
        from kavka.broker.metadata.encoded_topics import EncodedTopics

        return EncodedTopics(self._context.metadata)

    def _make_current_leaders(self) -> CurrentLeaders:
        from kavka.broker.partitions.current_leaders import CurrentLeaders

        return CurrentLeaders(self._context.metadata, self._replica_manager)

    def _make_batch_checks(self) -> BatchChecks:
        from kavka.broker.produce.batch_checks import BatchChecks

        return BatchChecks(self._context.environment.disk)

    def _make_control_request_check(self) -> ControlRequestCheck:
        from kavka.broker.control.control_request_check import ControlRequestCheck

        return ControlRequestCheck(self._context)

    def _make_producer_ids(self) -> ProducerIdManager:
        from kavka.broker.control.producer_ids import ProducerIdManager

        return ProducerIdManager(self._context, self._controller)

    def _make_groups(self) -> GroupCoordinators:
        from kavka.broker.coordination.group_coordinators import GroupCoordinators

        groups = self._coordinators[OFFSETS_TOPIC] = GroupCoordinators(
            self._context.config,
            self._context.metadata,
            self._context.clock,
            self._context.environment.disk,
            self._topics.auto_create,
            is_single_broker=self._context.has_own_registry,
        )
        return groups

    def _make_transactions(self) -> TransactionCoordinators:
        from kavka.broker.coordination.transaction_coordinators import TransactionCoordinators

        transactions = self._coordinators[TRANSACTIONS_TOPIC] = TransactionCoordinators(
            self._context,
            create_topic=self._topics.auto_create,
            producer_ids=self.producer_ids,
            write_here=self._write_markers,
        )
        return transactions

    def _make_marker_appender(self) -> MarkerAppender:
        from kavka.broker.coordination.marker_appends import MarkerAppender

        return MarkerAppender(
            self._replica_manager,
            self.groups,
            self._produce_purgatory,
            self._context.config.integer("request.timeout.ms"),
        )

    def _make_verifier(self) -> Verifier:
        from kavka.broker.coordination.verification import Verifier

        return Verifier(self._context, self._replica_manager, self.transactions.get())

    def _make_replication_manager(self) -> ReplicationManager:
        from kavka.broker.replication.replication_manager import ReplicationManager

        return ReplicationManager(
            self._context,
            self._replica_manager,
            self._controller,
            self._request_budget,
        )

    def _make_alter_log_dirs(self) -> AlterLogDirsManager:
        from kavka.broker.replication.alter_log_dirs import AlterLogDirsManager

        return AlterLogDirsManager(self._context, self._replica_manager, self._partition_events)

    def _make_cleaner(self) -> Cleaner:
        from kavka.broker.partitions.cleaner import Cleaner

        return Cleaner(self._context.effective_configs, self._replica_manager, self._context.clock)

    def _make_readable_logs(self) -> ReadableLogs:
        from kavka.broker.fetch.fetch_reader import ReadableLogs

        return ReadableLogs(
            self._context.broker_id,
            self._context.config,
            self._context.environment.disk,
            self._request_budget,
            self._context.metadata,
            self._replica_manager,
        )

    def _write_markers(
        self, markers: list[TransactionMarkers]
    ) -> MarkerCodes | Coroutine[Any, Any, MarkerCodes]:
        return self.marker_appender.get().write_own(markers)
