"""IncrementalAlterConfigs: overrides are set, deleted, appended to and subtracted from, name by name (KIP-339).

Levels of loggers (KIP-412) are changed here only: AlterConfigs, which replaces all, does not know them.
"""

from __future__ import annotations

from kavka.broker.api.alter_configs import alter_each
from kavka.broker.configs.effective_configs import EffectiveConfigs
from kavka.broker.configs.loggers import alter_loggers
from kavka.broker.configs.overrides import ConfigRefused, Operation, changed
from kavka.broker.control.config_resources import (
    ResourceType,
    alter,
    check_changes,
    check_logger_resource,
)
from kavka.broker.control.dynamic_configs import DynamicConfigs
from kavka.broker.requests.context import RequestContext
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

    async def change(resource: IncrementalAlterConfigsRequestResource) -> None:
        kind, name = resource.resource_type, resource.resource_name
        changes = _changes(resource)
        if kind == ResourceType.BROKER_LOGGER:
            check_logger_resource(name, broker_id)
            alter_loggers(changes, validate_only=request.validate_only)
            return

        def edit(present: dict[str, str]) -> dict[str, str | None]:
            is_topic = kind == ResourceType.TOPIC
            configs = effective_configs
            effective = configs.topic(name) if is_topic else configs.broker_values()
            return changed(present, changes, effective, topic=is_topic)

        await alter(dynamic_configs, kind, name, edit, validate_only=request.validate_only)

    make_result = IncrementalAlterConfigsResponseResource
    responses = await alter_each(context, request.resources, change, make_result)
    return IncrementalAlterConfigsResponse(responses=responses)


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
