"""The parts with counters and states on the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kavka.values import frozen

if TYPE_CHECKING:
    from kavka.broker.context import BrokerContext
    from kavka.broker.control.controller import Controller
    from kavka.broker.coordination.coordinators import Coordinators
    from kavka.broker.coordination.group_coordinators import GroupCoordinators
    from kavka.broker.coordination.transaction_coordinators import TransactionCoordinators
    from kavka.broker.lazy import Lazy
    from kavka.broker.partitions.cleaner import Cleaner
    from kavka.broker.partitions.replica_manager import ReplicaManager
    from kavka.broker.quotas.connection_quotas import ConnectionQuotas
    from kavka.broker.quotas.quota_manager import QuotaManager
    from kavka.broker.replication.replication_manager import ReplicationManager
    from kavka.broker.requests.dispatcher import Dispatcher
    from kavka.broker.requests.purgatory import Purgatory
    from kavka.broker.security.security_parts import SecurityParts
    from kavka.core.fetch_session import FetchSessionCache
    from kavka.net.event_loop import LoopIterations
    from kavka.net.request_budget import RequestBudget


@frozen
class MetricsSources:
    """Parts of a broker. Those that it may lack, or makes later, are given as such."""

    context: BrokerContext
    state: Callable[[], int]
    is_registered: Callable[[], bool]
    iterations: LoopIterations
    dispatcher: Dispatcher
    security: SecurityParts
    request_budget: RequestBudget
    produce_purgatory: Purgatory
    fetch_purgatory: Purgatory
    fetch_sessions: FetchSessionCache
    controller: Controller
    groups: Lazy[GroupCoordinators]
    coordinators: Mapping[str, Coordinators[Any]]
    transactions: Lazy[TransactionCoordinators]
    quotas: QuotaManager
    connection_quotas: ConnectionQuotas
    replica_manager: ReplicaManager
    replication_manager: Lazy[ReplicationManager]
    cleaner: Lazy[Cleaner]
