"""The settings of the transaction machine, with Kafka's defaults."""

from __future__ import annotations

from kavka.values import frozen

NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of transactions that are never aborted because of their age (KIP-939)."""
COMPLETION_DELAY_MS = 100
"""Milliseconds for which the end of a transaction waits for the next record of its id, to be written with it."""
COMPLETION_RETRY_MS = 100
"""Milliseconds after which the end of a transaction is written again when the log refused it."""


@frozen
class TransactionSettings:
    """Each field is the broker setting that its comment names."""

    max_timeout_ms: int = 900_000  # transaction.max.timeout.ms
    two_phase_commit_enable: bool = False  # transaction.two.phase.commit.enable
    expiration_ms: int = 7 * 24 * 3_600_000  # transactional.id.expiration.ms
    # transaction.abort.timed.out.transaction.cleanup.interval.ms
    abort_timed_out_interval_ms: int = 10_000
    # transaction.remove.expired.transaction.cleanup.interval.ms
    remove_expired_interval_ms: int = 3_600_000
