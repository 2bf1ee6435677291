"""IncrementalAlterConfigs: overrides are set, deleted, appended to and subtracted from, name by name (KIP-339)."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.configs import ConfigRefused, Operation, changed
from kavka.broker.dispatch import RequestContext
from kavka.broker.resources import ResourceType, alter
from kavka.errors import ErrorCode
from kavka.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)


async def handle(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change each resource, or say why not."""
    responses = [
        await _alter(broker, resource, validate_only=request.validate_only)
        for resource in request.resources
    ]
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter(
    broker: Broker, resource: IncrementalAlterConfigsRequestResource, *, validate_only: bool
) -> IncrementalAlterConfigsResponseResource:
    kind, name = resource.resource_type, resource.resource_name
    answer = IncrementalAlterConfigsResponseResource(resource_type=kind, resource_name=name)

    def edit(present: dict[str, str]) -> dict[str, str | None]:
        is_topic = kind == ResourceType.TOPIC
        effective = broker.configs.topic(name) if is_topic else broker.configs.broker_values()
        return changed(present, _changes(resource), effective, topic=is_topic)

    try:
        await alter(broker, kind, name, edit, validate_only=validate_only)
    except ConfigRefused as refused:
        answer.error_code, answer.error_message = refused.code, str(refused)
    return answer


def _changes(
    resource: IncrementalAlterConfigsRequestResource,
) -> list[tuple[str, Operation, str | None]]:
    """Return the changes of a resource. Raise ConfigRefused for a request that breaks its own rules."""
    changes = []
    for config in resource.configs:
        try:
            operation = Operation(config.config_operation)
        except ValueError:
            reason = f"Unknown operation {config.config_operation} for {config.name}"
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, reason) from None
        if config.value is None and operation is not Operation.DELETE:
            reason = f"Null value not supported for : {config.name}"
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, reason)
        changes.append((config.name, operation, config.value))
    names = [name for name, _operation, _value in changes]
    if len(set(names)) < len(names):
        raise ConfigRefused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    return changes
