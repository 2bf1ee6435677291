"""ACLs in a cluster of Apache Kafka's broker and ours: what one has changed the other obeys."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.wire.messages.create_acls import CreateAclsRequest
from kavka.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestFilter
from kavka.wire.messages.describe_acls import DescribeAclsRequest
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka_compat.asking import until
from kavka_compat.mixed import Kind, MixedCluster, run_mixed
from support.access import AUTHORIZER, acl, creation

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(240)]

_SETTINGS = {
    "authorizer.class.name": AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
    "offsets.topic.replication.factor": "1",
}
_ANY: dict[str, Any] = {"pattern_type_filter": 1, "operation": 1, "permission_type": 1}


def described(cluster: MixedCluster, number: int) -> set[tuple[str, int, str, int, int]]:
    response: Any = cluster.ask(number, DescribeAclsRequest(resource_type_filter=1, **_ANY), 2)
    assert response.error_code == 0
    return {
        (one.resource_name, one.pattern_type, row.principal, row.operation, row.permission_type)
        for one in response.resources
        for row in one.acls
    }


def is_denied(cluster: MixedCluster, number: int, group: str) -> bool:
    response: Any = cluster.ask(number, FindCoordinatorRequest(key=group), 3)
    code: int = response.error_code
    return code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_acls_of_one_broker_are_obeyed_by_the_other(tmp_path: Path) -> None:
    with run_mixed(tmp_path, {0: Kind.APACHE, 1: Kind.KAVKA}, _SETTINGS) as cluster:
        for author, other, group in ((0, 1, "g"), (1, 0, "h")):
            texts = (
                f"deny User:ANONYMOUS Describe Group:{group}",
                f"User:a DescribeConfigs Topic:{group}-*",
            )
            request = CreateAclsRequest(creations=[creation(acl(text)) for text in texts])
            response: Any = cluster.ask(author, request, 2)
            assert [row.error_code for row in response.results] == [0, 0]
            until(partial(is_denied, cluster, other, group))
            assert is_denied(cluster, author, group)
            assert described(cluster, 0) == described(cluster, 1)
        assert len(described(cluster, 1)) == 4
        everything = DeleteAclsRequestFilter(resource_type_filter=1, **_ANY)
        cluster.ask(0, DeleteAclsRequest(filters=[everything]), 2)
        until(lambda: not described(cluster, 1))
        assert not is_denied(cluster, 1, "g")
