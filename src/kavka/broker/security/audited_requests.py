"""Administrative requests, and what each is about, for the audit: names, and never a value that may be secret."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kavka.core.access.names import (
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    numbered,
)
from kavka.ids import uuid_text
from kavka.wire.apis import ApiKey

Subjects = Callable[[Any], Iterator[str]]
"""Yield what a request is about: some of it is taken, however much there is."""
TokenOf = Callable[[bytes], str | None]
"""Returns the delegation token with a secret."""


def _topics(request: Any) -> Iterator[str]:
    for topic in request.topics:
        yield topic.name


def _deleted_topics(request: Any) -> Iterator[str]:
    for topic in request.topics:
        yield uuid_text(topic.topic_id) if topic.name is None else topic.name
    yield from request.topic_names


def _grown_topics(request: Any) -> Iterator[str]:
    for topic in request.topics:
        yield f"{topic.name} to {topic.count}"


def _deleted_records(request: Any) -> Iterator[str]:
    for topic in request.topics:
        for row in topic.partitions:
            yield f"{topic.name}-{row.partition_index} before {row.offset}"


_KINDS: Final = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}


def _configs(request: Any) -> Iterator[str]:
    """Name each changed setting: its value may be a password."""
    for resource in request.resources:
        kind = _KINDS.get(resource.resource_type, str(resource.resource_type))
        names = ",".join(config.name for config in resource.configs)
        yield f"{kind} {resource.resource_name or '<default>'}: {names}"


def _created_acls(request: Any) -> Iterator[str]:
    for one in request.creations:
        entry = (one.permission_type, one.principal, one.operation, one.host)
        yield _acl(one.resource_type, one.resource_pattern_type, one.resource_name, entry)


def _deleted_acls(request: Any) -> Iterator[str]:
    for one in request.filters:
        entry = (one.permission_type, one.principal_filter, one.operation, one.host_filter)
        yield _acl(
            one.resource_type_filter, one.pattern_type_filter, one.resource_name_filter, entry
        )


def _acl(
    kind: int, pattern: int, name: str | None, entry: tuple[int, str | None, int, str | None]
) -> str:
    permission, principal, operation, host = entry
    resource = f"{numbered(AclResourceType, kind).name}:{numbered(PatternType, pattern).name}"
    return (
        f"{numbered(AclPermission, permission).name} {principal or 'ANY'} from {host or 'ANY'} "
        f"{numbered(AclOperation, operation).name} on {resource}:{name or 'ANY'}"
    )


def _quotas(request: Any) -> Iterator[str]:
    for entry in request.entries:
        entity = " ".join(f"{e.entity_type} {e.entity_name or '<default>'}" for e in entry.entity)
        changes = (
            f"{op.key} removed" if op.remove else f"{op.key}={op.value:g}" for op in entry.ops
        )
        yield f"{entity}: {','.join(changes)}"


def _credentials(request: Any) -> Iterator[str]:
    """Name the users: salts and passwords are not for a log."""
    for deletion in request.deletions:
        yield f"delete {deletion.name}"
    for upsertion in request.upsertions:
        yield f"set {upsertion.name}"


def _created_token(request: Any) -> Iterator[str]:
    owner = "the client"
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    yield f"token of {owner}"
    for renewer in request.renewers:
        yield f"renewer {renewer.principal_type}:{renewer.principal_name}"


def token_subjects(request: Any, token_of: TokenOf) -> Iterator[str]:
    """Yield the id of the token that a request names by its secret."""
    token_id = token_of(bytes(request.hmac))
    yield "unknown token" if token_id is None else f"token {token_id}"


def _described_tokens(request: Any) -> Iterator[str]:
    if request.owners is None:
        yield "tokens of every owner"
    for owner in request.owners or ():
        yield f"tokens of {owner.principal_type}:{owner.principal_name}"


def outcome_subjects(key: ApiKey, response: Any) -> Iterator[str]:
    """Yield what is known from the response only: the id of a new token, and of those whose secrets were read."""
    if key is ApiKey.CREATE_DELEGATION_TOKEN and response.token_id:
        yield f"token {response.token_id}"
    if key is ApiKey.DESCRIBE_DELEGATION_TOKEN:
        for token in response.tokens:
            yield f"token {token.token_id}"


def _elections(request: Any) -> Iterator[str]:
    if request.topic_partitions is None:
        yield "all partitions"
    for row in request.topic_partitions or ():
        for index in row.partitions:
            yield f"{row.topic}-{index}"


def _partitions(rows: Iterable[Any]) -> Iterator[str]:
    for row in rows:
        for partition in row.partitions:
            yield f"{row.name}-{partition.partition_index}"


def _reassignments(request: Any) -> Iterator[str]:
    return _partitions(request.topics)


def _deleted_offsets(request: Any) -> Iterator[str]:
    for partition in _partitions(request.topics):
        yield f"{request.group_id}: {partition}"


def _moved(request: Any) -> Iterator[str]:
    for row in request.dirs:
        for topic in row.topics:
            for index in topic.partitions:
                yield f"{topic.name}-{index} to {row.path}"


def _deleted_groups(request: Any) -> Iterator[str]:
    yield from request.groups_names


def _features(request: Any) -> Iterator[str]:
    for one in request.feature_updates:
        yield f"{one.feature} to {one.max_version_level}"


SUBJECTS: Final[dict[ApiKey, Subjects]] = {
    ApiKey.CREATE_TOPICS: _topics,
    ApiKey.DELETE_TOPICS: _deleted_topics,
    ApiKey.DELETE_RECORDS: _deleted_records,
    ApiKey.CREATE_PARTITIONS: _grown_topics,
    ApiKey.ALTER_CONFIGS: _configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs,
    ApiKey.CREATE_ACLS: _created_acls,
    ApiKey.DELETE_ACLS: _deleted_acls,
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _credentials,
    ApiKey.CREATE_DELEGATION_TOKEN: _created_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _described_tokens,
    ApiKey.ELECT_LEADERS: _elections,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassignments,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _moved,
    ApiKey.DELETE_GROUPS: _deleted_groups,
    ApiKey.OFFSET_DELETE: _deleted_offsets,
    ApiKey.UPDATE_FEATURES: _features,
}
"""Requests of administrators, and those that read the secrets of tokens.

WriteTxnMarkers is not here: brokers send it for each transaction.
"""
OF_TOKENS: Final = (ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN)
"""Requests that name a delegation token by its secret, in place of which `token_subjects` has its id."""
