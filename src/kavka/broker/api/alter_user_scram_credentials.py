"""AlterUserScramCredentials: changes of users' SCRAM credentials, on the controller."""

from __future__ import annotations

from collections.abc import Iterator

from kavka.broker.configs.entity_configs import edit_entity_config
from kavka.broker.control.controller import Controller
from kavka.broker.requests.context import RequestContext
from kavka.broker.security.scram_changes import (
    CheckedChanges,
    Deletion,
    NothingToDelete,
    Refusal,
    Upsertion,
    changed_config,
)
from kavka.broker.security.scram_credentials import USERS
from kavka.broker.security.security_parts import SecurityParts
from kavka.errors import ErrorCode, error_message
from kavka.registry.interface import Registry
from kavka.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseResult,
)
from kavka.wire.stored import znodes


async def handle(
    registry: Registry,
    security: SecurityParts,
    controller: Controller,
    context: RequestContext,
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse:
    """Change each user's credentials as a whole, or return why not."""
    pace = context.pace
    checked = CheckedChanges()
    changes: list[Upsertion | Deletion] = []
    for change in _changes(request):
        changes.append(change)
        checked.count(change)
        if pace.is_over():
            await pace.rest()
    request.upsertions, request.deletions = [], []
    for change in changes:
        checked.check(change)
        if pace.is_over():
            await pace.rest()
    response = AlterUserScramCredentialsResponse()
    for user, refusal in checked.outcomes.items():
        outcome = refusal
        if not controller.is_active:
            outcome = Refusal(ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER.message)
        elif refusal is None:
            outcome = await _change(registry, security, user, checked.of_user[user])
        response.results.append(_result(user, outcome))
        if pace.is_over():
            await pace.rest()
    return response


def _changes(request: AlterUserScramCredentialsRequest) -> Iterator[Upsertion | Deletion]:
    for removed in request.deletions:
        yield Deletion(removed.name, removed.mechanism)
    for each in request.upsertions:
        salt, salted_password = bytes(each.salt), bytes(each.salted_password)
        yield Upsertion(each.name, each.mechanism, each.iterations, salt, salted_password)


async def _change(
    registry: Registry,
    security: SecurityParts,
    user: str,
    changes: list[Upsertion | Deletion],
) -> Refusal | None:
    path = f"{USERS}/{znodes.sanitized_name(user)}"
    try:
        await edit_entity_config(registry, path, lambda config: changed_config(config, changes))
    except NothingToDelete:
        message = "Attempt to delete a user credential that does not exist"
        return Refusal(ErrorCode.RESOURCE_NOT_FOUND, message)
    if security.sasl_sessions is not None:  # before the client may use it here
        await security.sasl_sessions.entity_changed(path)
    return None


def _result(user: str, refusal: Refusal | None) -> AlterUserScramCredentialsResponseResult:
    if refusal is None:
        return AlterUserScramCredentialsResponseResult(user=user, error_code=ErrorCode.NONE)
    return AlterUserScramCredentialsResponseResult(
        user=user, error_code=refusal.code, error_message=error_message(refusal.message)
    )
