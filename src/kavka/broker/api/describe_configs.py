"""DescribeConfigs: settings of topics and of this broker, with where each value comes from."""

from __future__ import annotations

from collections.abc import Iterable

from kavka.broker.broker import Broker
from kavka.broker.configs import ConfigEntry, Source
from kavka.broker.dispatch import RequestContext
from kavka.broker.resources import ResourceType, broker_resource_error
from kavka.core.controller.topics import bad_name
from kavka.errors import ErrorCode
from kavka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResource,
    DescribeConfigsResponseSynonym,
)


def handle(
    broker: Broker, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Describe each resource, or say why not."""
    return DescribeConfigsResponse(
        results=[
            _describe(broker, resource, request, context.version) for resource in request.resources
        ]
    )


def _describe(
    broker: Broker,
    resource: DescribeConfigsRequestResource,
    request: DescribeConfigsRequest,
    version: int,
) -> DescribeConfigsResponseResource:
    answer = DescribeConfigsResponseResource(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    rows = _rows(broker, resource, answer)
    keys = resource.configuration_keys
    for row in rows:
        if keys is None or row.setting.name in keys:
            answer.configs.append(_config(row, request, version))
    return answer


def _rows(
    broker: Broker,
    resource: DescribeConfigsRequestResource,
    answer: DescribeConfigsResponseResource,
) -> Iterable[ConfigEntry]:
    """Return the rows of a resource; an error goes into `answer`."""
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        reason = bad_name(name)
        if reason is not None:
            answer.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
            answer.error_message = f"Topic name is invalid: {reason}"
        elif name not in broker.metadata.topics:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answer.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message
        else:
            return broker.configs.describe_topic(name)
        return ()
    if resource.resource_type == ResourceType.BROKER:
        message = broker_resource_error(name, broker.broker_id)
        if message is None:
            return broker.configs.describe_broker(default=name == "")
        answer.error_code, answer.error_message = ErrorCode.INVALID_REQUEST, message
        return ()
    answer.error_code = ErrorCode.INVALID_REQUEST
    answer.error_message = f"Unsupported resource type: {resource.resource_type}"
    return ()


def _config(
    row: ConfigEntry, request: DescribeConfigsRequest, version: int
) -> DescribeConfigsResponseConfig:
    hidden = row.setting.is_sensitive
    config = DescribeConfigsResponseConfig(
        name=row.setting.name,
        value=None if hidden else row.value,
        read_only=row.read_only,
        is_default=version == 0 and row.source is Source.DEFAULT,
        config_source=row.source if version > 0 else -1,
        is_sensitive=hidden,
        config_type=row.setting.type,
    )
    if request.include_synonyms:
        config.synonyms = [
            DescribeConfigsResponseSynonym(
                name=synonym.name, value=None if hidden else synonym.value, source=synonym.source
            )
            for synonym in row.synonyms
        ]
    if request.include_documentation:
        config.documentation = row.setting.doc
    return config
