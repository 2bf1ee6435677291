"""What a broker without an authorizer and without quotas answers to those who ask for them, as Apache Kafka does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kavka.errors import ErrorCode
from kavka.wire.messages.describe_acls import DescribeAclsRequest
from kavka.wire.messages.describe_client_quotas import DescribeClientQuotasRequest

Run = Callable[..., None]


def test_access_rules_are_refused_as_security_disabled(run: Run) -> None:
    async def story(served: Any) -> None:
        request = DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
        for version in range(4):
            response = await served.send(request, version)
            assert response.error_code == ErrorCode.SECURITY_DISABLED
            assert response.resources == []

    run(story)


def test_there_are_no_quotas(run: Run) -> None:
    async def story(served: Any) -> None:
        for version in range(2):
            request = DescribeClientQuotasRequest(components=[], strict=False)
            response = await served.send(request, version)
            assert (response.error_code, response.entries) == (0, [])

    run(story)
