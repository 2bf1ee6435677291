"""DescribeConfigs: settings of topics and of this broker, with where each value comes from; levels of its loggers.

Of topics what is stored is told, as Apache Kafka does: another broker may have changed it a moment ago.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Mapping

from kavka.broker.broker import Broker
from kavka.broker.configs import ConfigEntry, Source
from kavka.broker.dispatch import RequestContext
from kavka.broker.loggers import describe_loggers
from kavka.broker.overrides import ConfigRefused
from kavka.broker.resources import (
    ResourceType,
    check_broker_resource,
    check_logger_resource,
)
from kavka.core.controller.topics import bad_name
from kavka.errors import ErrorCode
from kavka.registry.interface import RegistryRefused
from kavka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResource,
    DescribeConfigsResponseSynonym,
)
from kavka.wire.stored import znodes

log = logging.getLogger(__name__)

Stored = Mapping[str, Mapping[str, str]]
"""What topics override, by name, where more is known than this broker obeys."""


def handle(
    broker: Broker, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse | Awaitable[DescribeConfigsResponse]:
    """Describe each resource, or say why not."""
    topics = [r.resource_name for r in request.resources if r.resource_type == ResourceType.TOPIC]
    if broker.keeps_registry or not topics:  # nobody else changes anything
        return _answer(broker, request, context.version, {})
    return _read_and_answer(broker, request, context.version, topics)


async def _read_and_answer(
    broker: Broker, request: DescribeConfigsRequest, version: int, topics: Iterable[str]
) -> DescribeConfigsResponse:
    stored: dict[str, Mapping[str, str]] = {}
    for name in dict.fromkeys(topics):
        if name not in broker.metadata.topics:
            continue
        try:
            data, _stat = await broker.registry.get(znodes.config_path("topics", name))
            stored[name] = znodes.decode_config(data)
        except RegistryRefused:
            stored[name] = {}
        except (ConnectionError, ValueError, TypeError, AttributeError) as error:
            log.warning("stored settings not read topic=%s reason=%r", name, error)
    return _answer(broker, request, version, stored)


def _answer(
    broker: Broker, request: DescribeConfigsRequest, version: int, stored: Stored
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            _describe(broker, resource, request, version, stored) for resource in request.resources
        ]
    )


def _describe(
    broker: Broker,
    resource: DescribeConfigsRequestResource,
    request: DescribeConfigsRequest,
    version: int,
    stored: Stored,
) -> DescribeConfigsResponseResource:
    answer = DescribeConfigsResponseResource(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        rows = _rows(broker, resource, stored)
    except ConfigRefused as refused:
        answer.error_code, answer.error_message = refused.code, str(refused)
        return answer
    keys = resource.configuration_keys
    for row in rows:
        if not keys or row.setting.name in keys:
            answer.configs.append(_config(row, request, version))
    return answer


def _rows(
    broker: Broker, resource: DescribeConfigsRequestResource, stored: Stored
) -> Iterable[ConfigEntry]:
    """Return the rows of a resource. Raise ConfigRefused."""
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        reason = bad_name(name)
        if reason is not None:
            message = f"Topic name is invalid: {reason}"
            raise ConfigRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
        if name not in broker.metadata.topics:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise ConfigRefused(code, code.message)
        return broker.configs.describe_topic(name, stored.get(name))
    if resource.resource_type == ResourceType.BROKER:
        check_broker_resource(name, broker.broker_id)
        return broker.configs.describe_broker(default=name == "")
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        check_logger_resource(name, broker.broker_id)
        return describe_loggers()
    message = f"Unsupported resource type: {resource.resource_type}"
    raise ConfigRefused(ErrorCode.INVALID_REQUEST, message)


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
        config_type=row.setting.told_as,
    )
    if request.include_synonyms:
        config.synonyms = [
            DescribeConfigsResponseSynonym(
                name=synonym.name, value=None if hidden else synonym.value, source=synonym.source
            )
            for synonym in row.synonyms
        ]
    if request.include_documentation:
        config.documentation = row.setting.doc or None
    return config
