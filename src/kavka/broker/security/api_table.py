"""The operations that each API needs, and the error without them, as in Apache Kafka 3.9's `KafkaApis`.

A need that has a name for a request is checked before the request's handler, and refuses the request as a whole
(`security.refused_requests`). The others are of topics, groups and so on in the request: its handler checks each by
`RequestContext.allows`. An API without a row is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kavka.core.access.names import CLUSTER_NAME, AclOperation, AclResourceType
from kavka.errors import ErrorCode
from kavka.values import frozen
from kavka.wire.apis import ApiKey

NameOf = Callable[[Any, int], str | None]
"""Return the name of the resource of a request in a version; None where the need is not of this request."""

_O, _R, _E = AclOperation, AclResourceType, ErrorCode
_FIRST_OF_BROKERS: Final = 4
"""The first version of AddPartitionsToTxn that brokers use, and producers do not."""


@frozen
class Need:
    """An operation on a resource, and the error without it."""

    operation: AclOperation
    resource: AclResourceType
    error: ErrorCode
    on: str
    """The resource, in the words of the documentation."""
    name_of: NameOf | None = None
    """None where the handler checks each item of the request."""
    instead: AclOperation | None = None
    """Another operation on the resource that is enough."""
    any_of: tuple[AclOperation, AclResourceType] | None = None
    """An operation on any resource of a type that is enough."""


def _cluster(
    operation: AclOperation,
    on: str = "the cluster",
    name_of: NameOf | None = lambda _request, _version: CLUSTER_NAME,
    **more: Any,
) -> Need:
    return Need(operation, _R.CLUSTER, _E.CLUSTER_AUTHORIZATION_FAILED, on, name_of=name_of, **more)


def _topics(operation: AclOperation, on: str = "each topic") -> Need:
    return Need(operation, _R.TOPIC, _E.TOPIC_AUTHORIZATION_FAILED, on)


def _group(operation: AclOperation) -> Need:
    return Need(
        operation,
        _R.GROUP,
        _E.GROUP_AUTHORIZATION_FAILED,
        "the group",
        name_of=lambda request, _version: request.group_id,
    )


def _groups(operation: AclOperation, on: str = "each group") -> Need:
    return Need(operation, _R.GROUP, _E.GROUP_AUTHORIZATION_FAILED, on)


def _transactional_id(
    operation: AclOperation,
    on: str = "the transactional id",
    name_of: NameOf | None = lambda request, _version: request.transactional_id,
) -> Need:
    error = _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return Need(operation, _R.TRANSACTIONAL_ID, error, on, name_of=name_of)


def _of_a_producer(request: Any, version: int) -> str | None:
    return request.v3_and_below_transactional_id if version < _FIRST_OF_BROKERS else None


def _of_a_broker(_request: Any, version: int) -> str | None:
    return CLUSTER_NAME if version >= _FIRST_OF_BROKERS else None


def _without_transactions(request: Any, _version: int) -> str | None:
    return CLUSTER_NAME if request.transactional_id is None else None


NEEDS: Final[dict[ApiKey, tuple[Need, ...]]] = {
    ApiKey.PRODUCE: (
        _transactional_id(_O.WRITE, "the transactional id of transactional batches", None),
        _topics(_O.WRITE),
    ),
    ApiKey.FETCH: (
        _topics(_O.READ, "each topic, for a consumer"),
        Need(
            _O.CLUSTER_ACTION,
            _R.CLUSTER,
            _E.TOPIC_AUTHORIZATION_FAILED,
            "the cluster, for a follower",
        ),
    ),
    ApiKey.LIST_OFFSETS: (_topics(_O.DESCRIBE),),
    ApiKey.METADATA: (
        _topics(_O.DESCRIBE, "each topic; of all topics the others are left out"),
        _topics(_O.CREATE, "each topic that would be created, or the cluster"),
    ),
    ApiKey.LEADER_AND_ISR: (_cluster(_O.CLUSTER_ACTION, name_of=None),),
    ApiKey.STOP_REPLICA: (_cluster(_O.CLUSTER_ACTION, name_of=None),),
    ApiKey.UPDATE_METADATA: (_cluster(_O.CLUSTER_ACTION, name_of=None),),
    ApiKey.CONTROLLED_SHUTDOWN: (_cluster(_O.CLUSTER_ACTION),),
    ApiKey.OFFSET_COMMIT: (_group(_O.READ), _topics(_O.READ)),
    ApiKey.OFFSET_FETCH: (
        _groups(_O.DESCRIBE),
        _topics(_O.DESCRIBE, "each topic; of all topics the others are left out"),
    ),
    ApiKey.FIND_COORDINATOR: (
        _groups(_O.DESCRIBE),
        _transactional_id(_O.DESCRIBE, "each transactional id", None),
    ),
    ApiKey.JOIN_GROUP: (_group(_O.READ),),
    ApiKey.HEARTBEAT: (_group(_O.READ),),
    ApiKey.LEAVE_GROUP: (_group(_O.READ),),
    ApiKey.SYNC_GROUP: (_group(_O.READ),),
    ApiKey.DESCRIBE_GROUPS: (_groups(_O.DESCRIBE),),
    ApiKey.LIST_GROUPS: (
        Need(
            _O.DESCRIBE,
            _R.CLUSTER,
            _E.NONE,
            "the cluster, or else each group: the others are left out",
        ),
    ),
    ApiKey.SASL_HANDSHAKE: (),
    ApiKey.SASL_AUTHENTICATE: (),
    ApiKey.API_VERSIONS: (),
    ApiKey.CREATE_TOPICS: (
        _topics(_O.CREATE, "each topic, or the cluster"),
        _topics(_O.DESCRIBE_CONFIGS, "each topic, for its settings in the response"),
    ),
    ApiKey.DELETE_TOPICS: (
        _topics(_O.DELETE),
        _topics(_O.DESCRIBE, "each topic by its id: else the response has no name"),
    ),
    ApiKey.DELETE_RECORDS: (_topics(_O.DELETE),),
    ApiKey.INIT_PRODUCER_ID: (
        _transactional_id(_O.WRITE),
        _cluster(
            _O.IDEMPOTENT_WRITE,
            "the cluster, or WRITE on any topic, without a transactional id",
            _without_transactions,
            any_of=(_O.WRITE, _R.TOPIC),
        ),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        _topics(_O.DESCRIBE, "each topic, or CLUSTER_ACTION on the cluster"),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _transactional_id(_O.WRITE, "the transactional id, below version 4", _of_a_producer),
        _topics(_O.WRITE, "each topic, below version 4"),
        _cluster(_O.CLUSTER_ACTION, "the cluster, from version 4 on", _of_a_broker),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (_transactional_id(_O.WRITE), _group(_O.READ)),
    ApiKey.END_TXN: (_transactional_id(_O.WRITE),),
    ApiKey.WRITE_TXN_MARKERS: (
        _cluster(
            _O.CLUSTER_ACTION, "the cluster, or ALTER on the cluster (KIP-1037)", instead=_O.ALTER
        ),
    ),
    ApiKey.TXN_OFFSET_COMMIT: (_transactional_id(_O.WRITE), _group(_O.READ), _topics(_O.READ)),
    ApiKey.DESCRIBE_ACLS: (_cluster(_O.DESCRIBE),),
    ApiKey.CREATE_ACLS: (_cluster(_O.ALTER),),
    ApiKey.DELETE_ACLS: (_cluster(_O.ALTER),),
    ApiKey.DESCRIBE_CONFIGS: (
        _topics(_O.DESCRIBE_CONFIGS),
        _cluster(_O.DESCRIBE_CONFIGS, "the cluster, for brokers and loggers", None),
    ),
    ApiKey.ALTER_CONFIGS: (
        _topics(_O.ALTER_CONFIGS),
        _cluster(_O.ALTER_CONFIGS, "the cluster, for brokers", None),
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (_cluster(_O.ALTER),),
    ApiKey.DESCRIBE_LOG_DIRS: (_cluster(_O.DESCRIBE),),
    ApiKey.CREATE_PARTITIONS: (_topics(_O.ALTER),),
    ApiKey.CREATE_DELEGATION_TOKEN: (
        Need(
            _O.CREATE_TOKENS,
            _R.USER,
            _E.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
            "the owner, where it is another than the client (`User:alice`)",
        ),
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: (),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (
        Need(
            _O.DESCRIBE,
            _R.DELEGATION_TOKEN,
            _E.NONE,
            "each token of others, or DescribeTokens on its owner: the others are left out",
        ),
        Need(_O.DESCRIBE_TOKENS, _R.USER, _E.NONE, "the owner of each token of others, likewise"),
    ),
    ApiKey.DELETE_GROUPS: (_groups(_O.DELETE),),
    ApiKey.ELECT_LEADERS: (_cluster(_O.ALTER),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        _topics(_O.ALTER_CONFIGS),
        _cluster(_O.ALTER_CONFIGS, "the cluster, for brokers and loggers", None),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_cluster(_O.ALTER),),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (_cluster(_O.DESCRIBE),),
    ApiKey.OFFSET_DELETE: (_group(_O.DELETE), _topics(_O.READ)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (_cluster(_O.DESCRIBE_CONFIGS),),
    ApiKey.ALTER_CLIENT_QUOTAS: (_cluster(_O.ALTER_CONFIGS),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (_cluster(_O.DESCRIBE),),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (_cluster(_O.ALTER),),
    ApiKey.ALTER_PARTITION: (_cluster(_O.CLUSTER_ACTION),),
    ApiKey.DESCRIBE_PRODUCERS: (_topics(_O.READ),),
    ApiKey.UPDATE_FEATURES: (_cluster(_O.ALTER),),
    ApiKey.DESCRIBE_CLUSTER: (),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        _transactional_id(_O.DESCRIBE, "each transactional id", None),
        Need(
            _O.DESCRIBE, _R.TOPIC, _E.NONE, "each topic in a transaction: the others are left out"
        ),
    ),
    ApiKey.LIST_TRANSACTIONS: (
        Need(
            _O.DESCRIBE,
            _R.TRANSACTIONAL_ID,
            _E.NONE,
            "each transactional id: the others are left out",
        ),
    ),
    ApiKey.ALLOCATE_PRODUCER_IDS: (_cluster(_O.CLUSTER_ACTION),),
}
