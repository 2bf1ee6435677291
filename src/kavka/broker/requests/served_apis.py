"""The APIs that this broker serves and advertises, and what the way of a request needs to know of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from kavka.broker.requests.counters import RequestTraffic
from kavka.broker.requests.memory import api_bound
from kavka.errors import ErrorCode
from kavka.wire.apis import APIS, ApiKey

if TYPE_CHECKING:
    from kavka.wire.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApi

SUPPORTED_APIS: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.DELETE_GROUPS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_PARTITION,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.UPDATE_FEATURES,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.ALLOCATE_PRODUCER_IDS,
)
"""In the order of their keys."""

_SMALL_BYTES: Final = 2048
_SMALL_BYTES_WITH_RECORDS: Final = 64 * 1024
"""Of Produce and Fetch: nearly all of a Produce is records, which are not decoded."""
_PARALLEL: Final = frozenset((ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP))
"""APIs that wait for others: while a large request of them waits, its connection is served on.

Behind a large request of another API its connection waits until the response is there, as in Apache Kafka behind any.
"""
_SMALL_RESPONSES: Final = frozenset(
    (
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.FIND_COORDINATOR,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.API_VERSIONS,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ALTER_PARTITION,
    )
)
"""APIs with small responses to small requests."""
_BEFORE_AUTHENTICATION: Final = frozenset(
    (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
)
"""APIs that a client may use before it is authenticated."""

Handler = Callable[[Any, Any], Any]
"""Takes context and message; returns one of the results that `requests.deferred` lists."""


def version_ranges(keys: Iterable[ApiKey]) -> list[ApiVersionsResponseApi]:
    """Return the versions that this broker serves of these APIs, as ApiVersions has them."""
    from kavka.wire.messages.api_versions import ApiVersionsResponseApi

    return [
        ApiVersionsResponseApi(
            api_key=key, min_version=APIS[key].min_version, max_version=APIS[key].max_version
        )
        for key in keys
    ]


def handler_module(key: ApiKey) -> str:
    """Return the module with the handler of an API: it has the key's name."""
    return f"kavka.broker.api.{key.name.lower()}"


def unsupported_api_versions() -> ApiVersionsResponse:
    """Return the response, in version 0, to an ApiVersions request of a version that this broker does not serve."""
    from kavka.wire.messages.api_versions import ApiVersionsResponse

    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=version_ranges([ApiKey.API_VERSIONS])
    )


class ServedApi:
    """An API with an imported handler. Slots, because they are read for each request."""

    __slots__ = (
        "allowed_before_authentication",
        "awaits_members",
        "bound",
        "carries_records",
        "handle",
        "immediate",
        "is_parallel",
        "key",
        "max_version",
        "may_respond_large",
        "min_version",
        "refusal",
        "request",
        "response",
        "small_bytes",
        "traffic",
        "versions",
    )

    def __init__(self, key: ApiKey, handle: Handler, max_decoded: int) -> None:
        """Count no request yet; `max_decoded` is `kavka.request.decoded.max.bytes`."""
        api = APIS[key]
        self.key = key
        self.min_version = api.min_version
        self.max_version = api.max_version
        self.request: type = api.request()
        self.response: type = api.response()
        self.handle = handle
        self.refusal: Handler | None = None
        """Called before `handle`; the response that refuses a request as a whole, or None."""
        self.carries_records = key is ApiKey.PRODUCE
        """True if a request may be large by records, which are not decoded."""
        may_be_longer = self.carries_records or key is ApiKey.FETCH
        self.small_bytes = _SMALL_BYTES_WITH_RECORDS if may_be_longer else _SMALL_BYTES
        self.bound = api_bound(key, max_decoded)
        self.is_parallel = key in _PARALLEL
        self.awaits_members = key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
        """True if its second stage waits for other clients: its requests are not queued, as in Apache Kafka."""
        self.may_respond_large = key not in _SMALL_RESPONSES
        self.allowed_before_authentication = key in _BEFORE_AUTHENTICATION
        self.traffic = traffic = RequestTraffic(api.max_version + 1)
        self.versions = traffic.versions
        self.immediate = traffic.immediate
