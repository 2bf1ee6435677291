"""AlterUserScramCredentials: changes of users' SCRAM credentials."""

from __future__ import annotations

from collections.abc import Iterator

from kavka.broker.requests.context import RequestContext
from kavka.broker.services import Services
from kavka.errors import ErrorCode
from kavka.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseResult,
)

_REFUSAL = (
    "This broker does not authenticate by SCRAM: no credential was changed, and none would be used."
)


async def handle(
    services: Services, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Refuse each user's changes: what is stored and not used would be taken for protection."""
    answer = AlterUserScramCredentialsResponse()
    refused: set[str] = set()
    for name in _names(request):
        if name not in refused:
            refused.add(name)
            answer.results.append(_refusal(name))
        if context.pace.is_over():
            await context.pace.rest()
    return answer


def _names(request: AlterUserScramCredentialsRequest) -> Iterator[str]:
    for deletion in request.deletions:
        yield deletion.name
    for upsertion in request.upsertions:
        yield upsertion.name


def _refusal(user: str) -> AlterUserScramCredentialsResponseResult:
    return AlterUserScramCredentialsResponseResult(
        user=user, error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_REFUSAL
    )
