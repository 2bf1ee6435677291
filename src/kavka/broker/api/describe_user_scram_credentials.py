"""DescribeUserScramCredentials: which users have SCRAM credentials."""

from __future__ import annotations

from collections import Counter

from kavka.broker.requests.context import RequestContext
from kavka.broker.services import Services
from kavka.errors import ErrorCode, error_message
from kavka.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponseResult,
)


async def handle(
    services: Services, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Answer that no user has any: credentials cannot be set. Codes and texts are Apache Kafka's."""
    asked: Counter[str] = Counter()
    for user in request.users or ():
        asked[user.name] += 1
        if context.pace.is_over():
            await context.pace.rest()
    answer = DescribeUserScramCredentialsResponse(error_message="")
    for name, times in asked.items():
        answer.results.append(_refused(name, times))
        if context.pace.is_over():
            await context.pace.rest()
    return answer


def _refused(name: str, times: int) -> DescribeUserScramCredentialsResponseResult:
    code = ErrorCode.RESOURCE_NOT_FOUND
    message = f"Attempt to describe a user credential that does not exist: {name}"
    if times > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
    elif not name:
        message = "Username must not be empty"
    return DescribeUserScramCredentialsResponseResult(
        user=name, error_code=code, error_message=error_message(message), credential_infos=[]
    )
