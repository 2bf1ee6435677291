"""Broker settings of transactions, their coordinator, and what coordinators write."""

from __future__ import annotations

from kavka.settings.declaration import Scope, Setting, ValueType

_T = ValueType

TRANSACTION_SETTINGS: list[Setting] = [
    Setting(
        "transaction.max.timeout.ms",
        _T.INT,
        900_000,
        "Largest transaction.timeout.ms that a producer may have; a larger one is refused.",
        minimum=1,
    ),
    Setting(
        "transaction.two.phase.commit.enable",
        _T.BOOLEAN,
        False,
        "True allows producers to have transactions without a timeout (KIP-939). One that is left open holds back "
        "read_committed consumers until it is ended by hand.",
    ),
    Setting(
        "kavka.transaction.version",
        _T.SHORT,
        None,
        "Feature transaction.version of a cluster at its creation. Unset: 2 with an embedded registry, else 0. "
        "Later `kavka features` changes it.",
        minimum=0,
        maximum=2,
    ),
    Setting(
        "transactional.id.expiration.ms",
        _T.INT,
        604_800_000,
        "Time in milliseconds since its last change after which a transactional id without an open transaction "
        "expires.",
        minimum=1,
    ),
    Setting(
        "transaction.state.log.num.partitions",
        _T.INT,
        50,
        "Number of partitions of __transaction_state, at its creation.",
        minimum=1,
    ),
    Setting(
        "transaction.state.log.replication.factor",
        _T.SHORT,
        3,
        "Replication factor of __transaction_state. The topic is not created, and transactions do not work, while "
        "fewer brokers are alive.",
        minimum=1,
    ),
    Setting(
        "transaction.state.log.min.isr",
        _T.INT,
        2,
        "min.insync.replicas of __transaction_state at its creation, at most its replication factor.",
        minimum=1,
    ),
    Setting(
        "transaction.state.log.segment.bytes",
        _T.INT,
        104_857_600,
        "Segment size of __transaction_state in bytes: smaller segments are compacted earlier, and loaded faster by "
        "a new coordinator.",
        minimum=1,
    ),
    Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        _T.INT,
        10_000,
        "Interval in milliseconds at which transactions beyond their transaction.timeout.ms are aborted.",
        minimum=1,
    ),
    Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        _T.INT,
        3_600_000,
        "Interval in milliseconds at which expired transactional ids are removed.",
        minimum=1,
    ),
    Setting(
        "transaction.partition.verification.enable",
        _T.BOOLEAN,
        True,
        "True has a leader ask the transaction coordinator, before it appends the first batch of a transaction, "
        "whether the transaction is open: late batches leave no transaction hanging.",
        scope=Scope.CLUSTER_WIDE,
    ),
    Setting(
        "add.partitions.to.txn.retry.backoff.ms",
        _T.INT,
        20,
        "Wait in milliseconds of a leader before it asks again to add its partition to a transaction, while the "
        "producer's previous one is being completed.",
        minimum=1,
    ),
    Setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        _T.INT,
        100,
        "Maximum time in milliseconds that a leader asks again to add its partition to a transaction; then the "
        "producer gets a retriable error.",
        minimum=0,
    ),
    Setting(
        "request.timeout.ms",
        _T.INT,
        30_000,
        "Timeout in milliseconds of requests to other brokers, and of the replication of what the transaction "
        "coordinator writes.",
        minimum=1,
    ),
    Setting(
        "offsets.commit.timeout.ms",
        _T.INT,
        5_000,
        "Timeout in milliseconds of the replication of what the group coordinator writes; a commit of offsets that "
        "takes longer fails.",
        minimum=1,
    ),
]
