"""Responses of a broker without authorizer and quotas to requests about them, as Apache Kafka's."""

from __future__ import annotations

from kavka.errors import ErrorCode
from kavka.wire.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation
from kavka.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestFilter
from kavka.wire.messages.describe_acls import DescribeAclsRequest
from kavka.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from support.one_broker import Run, Served


def test_access_rules_are_refused_as_security_disabled(run: Run) -> None:
    async def story(served: Served) -> None:
        request = DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
        for version in range(4):
            response = await served.send(request, version)
            assert response.error_code == ErrorCode.SECURITY_DISABLED
            assert response.resources == []

    run(story)


def test_changes_of_access_rules_are_refused_one_by_one(run: Run) -> None:
    async def story(served: Served) -> None:
        rule = CreateAclsRequestCreation(resource_name="t", principal="User:a", host="*")
        created = await served.send(CreateAclsRequest(creations=[rule, rule]))
        assert [r.error_code for r in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
        which = DeleteAclsRequestFilter(resource_type_filter=1, operation=1, permission_type=1)
        deleted = await served.send(DeleteAclsRequest(filters=[which, which]))
        assert [r.error_code for r in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED] * 2

    run(story)


def test_there_are_no_quotas(run: Run) -> None:
    async def story(served: Served) -> None:
        for version in range(2):
            request = DescribeClientQuotasRequest(components=[], strict=False)
            response = await served.send(request, version)
            assert (response.error_code, response.entries) == (0, [])

    run(story)
