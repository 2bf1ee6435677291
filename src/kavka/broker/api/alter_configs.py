"""AlterConfigs: the older way, which replaces all overrides of a resource."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

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

    async def replace(resource: AlterConfigsRequestResource) -> None:
        def edit(present: dict[str, str]) -> dict[str, str | None]:
            return {config.name: config.value for config in resource.configs}

        check_changes((config.name, config.value) for config in resource.configs)
        kind, name = resource.resource_type, resource.resource_name
        await alter(dynamic_configs, kind, name, edit, validate_only=request.validate_only)

    responses = await alter_each(context, request.resources, replace, AlterConfigsResponseResource)
    return AlterConfigsResponse(responses=responses)


async def alter_each(
    context: RequestContext,
    resources: Sequence[Any],
    change: Callable[[Any], Awaitable[None]],
    make_result: Callable[..., Any],
) -> list[Any]:
    """Change each resource that is named once and that the client may alter; return its row of the response.

    `change` raises ConfigRefused with the reason why it did nothing.
    """
    pace = context.pace
    duplicated = await duplicates(((r.resource_type, r.resource_name) for r in resources), pace)
    results = []
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        result = make_result(resource_type=kind, resource_name=name)
        try:
            if (kind, name) in duplicated:
                raise ConfigRefused(ErrorCode.INVALID_REQUEST, DUPLICATE_RESOURCE)
            check_access(context, AclOperation.ALTER_CONFIGS, kind, name)
            await change(resource)
        except ConfigRefused as refused:
            result.error_code, result.error_message = refused.code, str(refused)
        results.append(result)
        if pace.is_over(1 + len(resource.configs)):
            await pace.rest()
    return results
