"""Transactions: those that this broker coordinates, and those that are open for too long in its partitions.

Apache Kafka has the second (KIP-664); names of the first are kavka's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kavka.broker.metrics.samples import Samples
from kavka.broker.metrics.sources import MetricsSources
from kavka.core.transaction.records import TransactionState
from kavka.metrics.families import Family, gauge, labelled

_LATE_AFTER_MS = 5 * 60_000
"""Beyond `transaction.max.timeout.ms`, as in Apache Kafka."""


def families(sources: MetricsSources, samples: Samples | None = None) -> Iterator[Family]:
    """Yield the families."""
    states = Counter[TransactionState]()
    starts: list[int] = []
    coordinators = sources.transactions.made
    for shard in () if coordinators is None else coordinators.shards():
        in_shard, earliest_ms = shard.machine.count()
        states += in_shard
        if earliest_ms is not None:
            starts.append(earliest_ms)
    help = "Transactional ids that this broker coordinates, by the state of their last transaction."
    counted = [(labelled(state=state.title), states[state]) for state in TransactionState]
    yield gauge("kavka_coordinator_transaction_ids", help, counted)
    help = "Age of the oldest open transaction that this broker coordinates, in ms; 0 without one."
    now_ms = sources.context.clock.now_ms()
    oldest = max(0, now_ms - min(starts)) if starts else 0
    yield gauge("kavka_coordinator_transaction_oldest_open_ms", help, oldest)
    if samples is None:
        return
    limit_ms = sources.context.config.integer("transaction.max.timeout.ms") + _LATE_AFTER_MS
    late = samples.transactions.late(sources.context.clock.tick_ms(), limit_ms)
    name = "kafka_server_replicamanager_partitionswithlatetransactionscount"
    help = "Partitions with a transaction that is open for longer than any may be: it hangs."
    yield gauge(name, help, late)
