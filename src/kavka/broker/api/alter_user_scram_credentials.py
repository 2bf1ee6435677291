"""AlterUserScramCredentials: changes of users' SCRAM credentials, on the controller."""

from __future__ import annotations

from kavka.broker.configs.entity_configs import edit_entity_config
from kavka.broker.requests.context import RequestContext
from kavka.broker.security.scram_changes import (
    Deletion,
    NothingToDelete,
    Refusal,
    Upsertion,
    changed_config,
    check_changes,
)
from kavka.broker.security.scram_credentials import USERS
from kavka.broker.services import Services
from kavka.errors import ErrorCode, error_message
from kavka.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseResult,
)
from kavka.wire.stored import znodes


async def handle(
    services: Services, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Change each user's credentials as a whole, or return why not."""
    changes = _changes(request)
    request.upsertions = []
    if not services.controller.is_active:
        not_controller = Refusal(ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER.message)
        outcomes: dict[str, Refusal | None] = {change.user: not_controller for change in changes}
    else:
        outcomes = check_changes(changes)
        of_user: dict[str, list[Upsertion | Deletion]] = {}
        for change in changes:
            of_user.setdefault(change.user, []).append(change)
        for user, refusal in outcomes.items():
            if refusal is None:
                outcomes[user] = await _change(services, user, of_user[user])
            if context.pace.is_over():
                await context.pace.rest()
    return AlterUserScramCredentialsResponse(
        results=[_result(user, refusal) for user, refusal in outcomes.items()]
    )


def _changes(request: AlterUserScramCredentialsRequest) -> list[Upsertion | Deletion]:
    deletions = [Deletion(each.name, each.mechanism) for each in request.deletions]
    upsertions = [
        Upsertion(
            each.name,
            each.mechanism,
            each.iterations,
            bytes(each.salt),
            bytes(each.salted_password),
        )
        for each in request.upsertions
    ]
    return [*deletions, *upsertions]


async def _change(
    services: Services, user: str, changes: list[Upsertion | Deletion]
) -> Refusal | None:
    path = f"{USERS}/{znodes.sanitized_name(user)}"
    try:
        await edit_entity_config(
            services.registry, path, lambda config: changed_config(config, changes)
        )
    except NothingToDelete:
        message = "Attempt to delete a user credential that does not exist"
        return Refusal(ErrorCode.RESOURCE_NOT_FOUND, message)
    if services.sessions is not None:  # before the client may use it here
        await services.sessions.entity_changed(path)
    return None


def _result(user: str, refusal: Refusal | None) -> AlterUserScramCredentialsResponseResult:
    if refusal is None:
        return AlterUserScramCredentialsResponseResult(user=user, error_code=ErrorCode.NONE)
    return AlterUserScramCredentialsResponseResult(
        user=user, error_code=refusal.code, error_message=error_message(refusal.message)
    )
