"""AlterUserScramCredentials: changes of users' SCRAM credentials."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseResult,
)

_REFUSAL = (
    "This broker does not authenticate by SCRAM: no credential was changed, and none would be used."
)


def handle(
    broker: Broker, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Refuse each user's changes: what is stored and not used would be taken for protection."""
    users = dict.fromkeys(deletion.name for deletion in request.deletions)
    users |= dict.fromkeys(upsertion.name for upsertion in request.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResponseResult(
                user=user, error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_REFUSAL
            )
            for user in users
        ]
    )
