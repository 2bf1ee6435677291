"""AlterConfigs: the older way, which replaces all overrides of a resource."""

from __future__ import annotations

from collections.abc import Collection

from kavka.broker.configs.overrides import ConfigRefused
from kavka.broker.control.config_resources import (
    DUPLICATE_RESOURCE,
    alter,
    check_access,
    check_changes,
    duplicates,
)
from kavka.broker.control.dynamic_configs import DynamicConfigs
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.session import AclOperation
from kavka.errors import ErrorCode
from kavka.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestResource,
    AlterConfigsResponse,
    AlterConfigsResponseResource,
)


async def handle(
    dynamic_configs: DynamicConfigs, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """Replace the overrides of each resource, or say why not."""
    pace = context.pace
    named = ((r.resource_type, r.resource_name) for r in request.resources)
    duplicated = await duplicates(named, pace)
    responses = []
    for resource in request.resources:
        validate_only = request.validate_only
        result = await _alter(
            dynamic_configs, context, resource, duplicated, validate_only=validate_only
        )
        responses.append(result)
        if pace.is_over(1 + len(resource.configs)):
            await pace.rest()
    return AlterConfigsResponse(responses=responses)


async def _alter(
    dynamic_configs: DynamicConfigs,
    context: RequestContext,
    resource: AlterConfigsRequestResource,
    duplicated: Collection[tuple[int, str]],
    *,
    validate_only: bool,
) -> AlterConfigsResponseResource:
    kind, name = resource.resource_type, resource.resource_name
    result = AlterConfigsResponseResource(resource_type=kind, resource_name=name)

    def edit(present: dict[str, str]) -> dict[str, str | None]:
        return {config.name: config.value for config in resource.configs}

    try:
        if (kind, name) in duplicated:
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, DUPLICATE_RESOURCE)
        check_access(context, AclOperation.ALTER_CONFIGS, kind, name)
        check_changes((config.name, config.value) for config in resource.configs)
        await alter(dynamic_configs, kind, name, edit, validate_only=validate_only)
    except ConfigRefused as refused:
        result.error_code, result.error_message = refused.code, str(refused)
    return result
