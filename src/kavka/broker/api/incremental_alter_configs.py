"""IncrementalAlterConfigs: overrides are set, deleted, appended to and subtracted from, name by name (KIP-339).

Levels of loggers (KIP-412) are changed here only: AlterConfigs, which replaces all, does not know them.
"""

from __future__ import annotations

from collections.abc import Collection

from kavka.broker.configs.effective_configs import EffectiveConfigs
from kavka.broker.configs.loggers import alter_loggers
from kavka.broker.configs.overrides import ConfigRefused, Operation, changed
from kavka.broker.control.config_resources import (
    DUPLICATE_RESOURCE,
    ResourceType,
    alter,
    check_access,
    check_changes,
    check_logger_resource,
    duplicates,
)
from kavka.broker.control.dynamic_configs import DynamicConfigs
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.session import AclOperation
from kavka.errors import ErrorCode
from kavka.ids import BrokerId
from kavka.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)


async def handle(
    broker_id: BrokerId,
    effective_configs: EffectiveConfigs,
    dynamic_configs: DynamicConfigs,
    context: RequestContext,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse:
    """Change each resource, or say why not."""
    pace = context.pace
    named = ((r.resource_type, r.resource_name) for r in request.resources)
    duplicated = await duplicates(named, pace)
    responses = []
    for resource in request.resources:
        validate_only = request.validate_only
        result = await _alter(
            broker_id,
            effective_configs,
            dynamic_configs,
            context,
            resource,
            duplicated,
            validate_only=validate_only,
        )
        responses.append(result)
        if pace.is_over(1 + len(resource.configs)):
            await pace.rest()
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter(
    broker_id: BrokerId,
    effective_configs: EffectiveConfigs,
    dynamic_configs: DynamicConfigs,
    context: RequestContext,
    resource: IncrementalAlterConfigsRequestResource,
    duplicated: Collection[tuple[int, str]],
    *,
    validate_only: bool,
) -> IncrementalAlterConfigsResponseResource:
    kind, name = resource.resource_type, resource.resource_name
    result = IncrementalAlterConfigsResponseResource(resource_type=kind, resource_name=name)

    def edit(present: dict[str, str]) -> dict[str, str | None]:
        is_topic = kind == ResourceType.TOPIC
        effective = effective_configs.topic(name) if is_topic else effective_configs.broker_values()
        return changed(present, changes, effective, topic=is_topic)

    try:
        if (kind, name) in duplicated:
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, DUPLICATE_RESOURCE)
        check_access(context, AclOperation.ALTER_CONFIGS, kind, name)
        changes = _changes(resource)
        if kind == ResourceType.BROKER_LOGGER:
            check_logger_resource(name, broker_id)
            alter_loggers(changes, validate_only=validate_only)
            return result
        await alter(dynamic_configs, kind, name, edit, validate_only=validate_only)
    except ConfigRefused as refused:
        result.error_code, result.error_message = refused.code, str(refused)
    return result


def _changes(
    resource: IncrementalAlterConfigsRequestResource,
) -> list[tuple[str, Operation, str | None]]:
    """Return the changes of a resource. Raise ConfigRefused for an invalid request."""
    check_changes(
        (config.name, "" if config.config_operation == Operation.DELETE else config.value)
        for config in resource.configs
    )
    changes = []
    for config in resource.configs:
        try:
            operation = Operation(config.config_operation)
        except ValueError:
            reason = f"Unknown operation {config.config_operation} for {config.name}"
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, reason) from None
        changes.append((config.name, operation, config.value))
    return changes
