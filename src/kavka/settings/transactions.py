"""Broker settings of transactions, their coordinator, and what coordinators write."""

from __future__ import annotations

from kavka.settings.declaration import Scope, Setting, ValueType

_T = ValueType

TRANSACTION_SETTINGS: list[Setting] = [
    Setting(
        "transaction.max.timeout.ms",
        _T.INT,
        900_000,
        "The longest time-out that a transactional producer may ask for.",
        minimum=1,
    ),
    Setting(
        "transaction.two.phase.commit.enable",
        _T.BOOLEAN,
        False,
        "Whether producers may have transactions that are never aborted because of their age (KIP-939).",
    ),
    Setting(
        "kavka.transaction.version",
        _T.SHORT,
        None,
        "The level of the feature transaction.version with which a new cluster begins; not given: 2 where the registry"
        " is the broker's own, else 0. Of a cluster that exists `kavka features` changes it.",
        minimum=0,
        maximum=2,
    ),
    Setting(
        "transactional.id.expiration.ms",
        _T.INT,
        604_800_000,
        "How long a transactional id without open transaction is remembered after its last change.",
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
        "Replicas of __transaction_state, which is not made while fewer brokers live.",
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
        "How often transactions are looked for that are open longer than their time-out; they are aborted.",
        minimum=1,
    ),
    Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        _T.INT,
        3_600_000,
        "How often transactional ids are looked for that nobody has used for long.",
        minimum=1,
    ),
    Setting(
        "transaction.partition.verification.enable",
        _T.BOOLEAN,
        True,
        "Whether a leader asks the coordinator before it takes the first batch of a transaction.",
        scope=Scope.CLUSTER_WIDE,
    ),
    Setting(
        "add.partitions.to.txn.retry.backoff.ms",
        _T.INT,
        20,
        "How soon a leader asks again for its partition to take part while the last transaction is being completed.",
        minimum=1,
    ),
    Setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        _T.INT,
        100,
        "For how long a leader asks so; then the producer is told to try again.",
        minimum=0,
    ),
    Setting(
        "request.timeout.ms",
        _T.INT,
        30_000,
        "How long a broker waits for another one's answer, and for its own records to be committed.",
        minimum=1,
    ),
    Setting(
        "offsets.commit.timeout.ms",
        _T.INT,
        5_000,
        "How long a group's coordinator waits for its records to be committed.",
        minimum=1,
    ),
]
