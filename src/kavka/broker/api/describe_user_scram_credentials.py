"""DescribeUserScramCredentials: which users have SCRAM credentials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kavka.broker.requests.context import RequestContext
from kavka.broker.security.scram_credentials import stored_credentials
from kavka.core.sasl.scram_credential import SCRAM_MECHANISMS, ScramCredential
from kavka.errors import ErrorCode, error_message
from kavka.registry.interface import Registry
from kavka.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponseCredentialInfo,
    DescribeUserScramCredentialsResponseResult,
)


async def handle(
    registry: Registry, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Answer with mechanisms and iterations as the registry has them. Codes and texts are Apache Kafka's."""
    asked: Counter[str] = Counter()
    for user in request.users or ():
        asked[user.name] += 1
        if context.pace.is_over():
            await context.pace.rest()
    once = (name for name, times in asked.items() if name and times == 1)
    stored = await stored_credentials(registry, once if asked else None, context.pace.rest_if_over)
    response = DescribeUserScramCredentialsResponse(error_message="")
    for name in asked or stored:
        credentials = stored.get(name)
        if credentials is None:
            response.results.append(_refused(name, asked[name]))
        else:
            response.results.append(_described(name, credentials))
        if context.pace.is_over():
            await context.pace.rest()
    return response


def _described(
    name: str, credentials: Mapping[str, ScramCredential]
) -> DescribeUserScramCredentialsResponseResult:
    infos = [
        DescribeUserScramCredentialsResponseCredentialInfo(
            mechanism=SCRAM_MECHANISMS[mechanism].number, iterations=credential.iterations
        )
        for mechanism, credential in credentials.items()
    ]
    return DescribeUserScramCredentialsResponseResult(
        user=name, error_code=ErrorCode.NONE, credential_infos=infos
    )


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
