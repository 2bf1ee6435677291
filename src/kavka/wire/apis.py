"""The APIs of the protocol: keys, the versions that this release speaks, and where their classes are.

Importing this module imports no message: a class comes with the first use of its API. The versions are those of
Apache Kafka 3.9, and those of 4.x that transactions of version 2 need (KIP-890, KIP-939); that they equal the
declarations of the classes is checked by a test.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple


class ApiKey(IntEnum):
    """Every key up to Apache Kafka 4.4, also of APIs that this release does not speak."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CLIENT_METRICS_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94

    @property
    def title(self) -> str:
        """The name as Kafka prints it, such as `FindCoordinator`."""
        return self.name.title().replace("_", "")


class Api(NamedTuple):
    """An API that can be encoded and decoded."""

    key: ApiKey
    min_version: int
    max_version: int
    flexible_from: int | None
    """The first version with compact lengths and tagged fields; None where no version has them."""

    def request(self) -> type[Any]:
        """Return the request's class, importing its module if need be."""
        return _class_of(self.key, "Request")

    def response(self) -> type[Any]:
        """Return the response's class, importing its module if need be."""
        return _class_of(self.key, "Response")

    def is_flexible(self, version: int) -> bool:
        """Return whether a version, known or a newer one, has tagged fields and so the longer headers."""
        return self.flexible_from is not None and version >= self.flexible_from


@cache
def _class_of(key: ApiKey, suffix: str) -> type[Any]:
    module = import_module(f"kavka.wire.messages.{key.name.lower()}")
    found: type[Any] = getattr(module, key.title + suffix)
    return found


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        Api(ApiKey.PRODUCE, 0, 12, 9),
        Api(ApiKey.FETCH, 0, 17, 12),
        Api(ApiKey.LIST_OFFSETS, 0, 9, 6),
        Api(ApiKey.METADATA, 0, 12, 9),
        Api(ApiKey.LEADER_AND_ISR, 0, 7, 4),
        Api(ApiKey.STOP_REPLICA, 0, 4, 2),
        Api(ApiKey.UPDATE_METADATA, 0, 8, 6),
        Api(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, 3),
        Api(ApiKey.OFFSET_COMMIT, 0, 9, 8),
        Api(ApiKey.OFFSET_FETCH, 0, 9, 6),
        Api(ApiKey.FIND_COORDINATOR, 0, 6, 3),
        Api(ApiKey.JOIN_GROUP, 0, 9, 6),
        Api(ApiKey.HEARTBEAT, 0, 4, 4),
        Api(ApiKey.LEAVE_GROUP, 0, 5, 4),
        Api(ApiKey.SYNC_GROUP, 0, 5, 4),
        Api(ApiKey.DESCRIBE_GROUPS, 0, 5, 5),
        Api(ApiKey.LIST_GROUPS, 0, 5, 3),
        Api(ApiKey.SASL_HANDSHAKE, 0, 1, None),
        Api(ApiKey.API_VERSIONS, 0, 4, 3),
        Api(ApiKey.CREATE_TOPICS, 0, 7, 5),
        Api(ApiKey.DELETE_TOPICS, 0, 6, 4),
        Api(ApiKey.DELETE_RECORDS, 0, 2, 2),
        Api(ApiKey.INIT_PRODUCER_ID, 0, 6, 2),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4, 4),
        Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, 3),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, 3),
        Api(ApiKey.END_TXN, 0, 5, 3),
        Api(ApiKey.WRITE_TXN_MARKERS, 0, 2, 1),
        Api(ApiKey.TXN_OFFSET_COMMIT, 0, 5, 3),
        Api(ApiKey.DESCRIBE_ACLS, 0, 3, 2),
        Api(ApiKey.CREATE_ACLS, 0, 3, 2),
        Api(ApiKey.DELETE_ACLS, 0, 3, 2),
        Api(ApiKey.DESCRIBE_CONFIGS, 0, 4, 4),
        Api(ApiKey.ALTER_CONFIGS, 0, 2, 2),
        Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, 2),
        Api(ApiKey.DESCRIBE_LOG_DIRS, 0, 4, 2),
        Api(ApiKey.SASL_AUTHENTICATE, 0, 2, 2),
        Api(ApiKey.CREATE_PARTITIONS, 0, 3, 2),
        Api(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3, 2),
        Api(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, 2),
        Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, 2),
        Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3, 2),
        Api(ApiKey.DELETE_GROUPS, 0, 2, 2),
        Api(ApiKey.ELECT_LEADERS, 0, 2, 2),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, 1),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 0, 0),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, 0),
        Api(ApiKey.OFFSET_DELETE, 0, 0, None),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, 1),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, 1),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, 0),
        Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, 0),
        Api(ApiKey.ALTER_PARTITION, 0, 3, 0),
        Api(ApiKey.UPDATE_FEATURES, 0, 1, 0),
        Api(ApiKey.DESCRIBE_CLUSTER, 0, 1, 0),
        Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, 0),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, 0),
        Api(ApiKey.LIST_TRANSACTIONS, 0, 1, 0),
        Api(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, 0),
        Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, 0),
    )
}
"""By key; a plain number finds its API too."""
