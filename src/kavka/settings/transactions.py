"""Broker settings of transactions, their coordinator, and what coordinators write."""

from __future__ import annotations

from kavka.settings.declaration import Scope, Setting, ValueType

_T = ValueType

TRANSACTION_SETTINGS: list[Setting] = [
    Setting(
        "transaction.max.timeout.ms",
        _T.INT,
        900_000,
        "The longest timeout that a transactional producer may ask for.",
        minimum=1,
    ),
    Setting(
        "transaction.two.phase.commit.enable",
        _T.BOOLEAN,
        False,
        "True allows producers transactions that are never aborted because of their age (KIP-939).",
    ),
    Setting(
        "kavka.transaction.version",
        _T.SHORT,
        None,
        "transaction.version of a new cluster; default: 2 with an embedded registry, else 0. Later: `kavka features`.",
        minimum=0,
        maximum=2,
    ),
    Setting(
        "transactional.id.expiration.ms",
        _T.INT,
        604_800_000,
        "Time after the last change at which a transactional id without an open transaction expires.",
        minimum=1,
    ),
    Setting(
        "transaction.state.log.num.partitions",
        _T.INT,
        50,
        "Partitions of __transaction_state.",
        minimum=1,
    ),
    Setting(
        "transaction.state.log.replication.factor",
        _T.SHORT,
        3,
        "Replication factor of __transaction_state, which is not created while fewer brokers are alive.",
        minimum=1,
    ),
    Setting(
        "transaction.state.log.min.isr",
        _T.INT,
        2,
        "min.insync.replicas of __transaction_state; no more than its replicas.",
        minimum=1,
    ),
    Setting(
        "transaction.state.log.segment.bytes",
        _T.INT,
        104_857_600,
        "Segment size of __transaction_state.",
        minimum=1,
    ),
    Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        _T.INT,
        10_000,
        "Interval of the check for timed-out transactions, which are aborted.",
        minimum=1,
    ),
    Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        _T.INT,
        3_600_000,
        "Interval of the check for expired transactional ids.",
        minimum=1,
    ),
    Setting(
        "transaction.partition.verification.enable",
        _T.BOOLEAN,
        True,
        "True makes a leader verify with the coordinator before it appends the first batch of a transaction.",
        scope=Scope.CLUSTER_WIDE,
    ),
    Setting(
        "add.partitions.to.txn.retry.backoff.ms",
        _T.INT,
        20,
        "Back-off before a leader adds its partition again while the previous transaction is being completed.",
        minimum=1,
    ),
    Setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        _T.INT,
        100,
        "Timeout of that verification; then the producer gets a retriable error.",
        minimum=0,
    ),
    Setting(
        "request.timeout.ms",
        _T.INT,
        30_000,
        "Timeout of requests to other brokers, and of the commit of its own records.",
        minimum=1,
    ),
    Setting(
        "offsets.commit.timeout.ms",
        _T.INT,
        5_000,
        "Timeout of the commit of the group coordinator's records.",
        minimum=1,
    ),
]
