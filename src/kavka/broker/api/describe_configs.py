"""DescribeConfigs: settings of topics and of this broker, with where each value comes from; levels of its loggers.

Stored settings of topics are returned, as by Apache Kafka: another broker may have changed them a moment ago.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from kavka.broker.configs.effective_configs import ConfigEntry, EffectiveConfigs, Source
from kavka.broker.configs.loggers import describe_loggers
from kavka.broker.configs.overrides import ConfigRefused
from kavka.broker.control.config_resources import (
    ResourceType,
    check_access,
    check_broker_resource,
    check_logger_resource,
)
from kavka.broker.metadata.cache import MetadataCache
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Pace, Slices
from kavka.broker.requests.repetitions import Repetitions
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.core.controller.topics import bad_name
from kavka.errors import ErrorCode
from kavka.ids import BrokerId
from kavka.registry.interface import Registry, RegistryRefused, require_no_node
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

_STEPS_OF_NONE = 16
"""Rows of a resource that are computed though none is requested."""

Stored = Mapping[str, Mapping[str, str]]
"""Topics' overrides in the registry by name, where they contain more than this broker supports."""


class Handler:
    """DescribeConfigs: the settings of topics, brokers and loggers."""

    def __init__(
        self,
        broker_id: BrokerId,
        has_own_registry: bool,
        effective_configs: EffectiveConfigs,
        registry: Registry,
        slices: Slices,
        metadata: MetadataCache,
    ) -> None:
        """Take the parts that it works with."""
        self._broker_id = broker_id
        self._has_own_registry = has_own_registry
        self._effective_configs = effective_configs
        self._registry = registry
        self._slices = slices
        self._metadata = metadata

    async def handle(
        self, context: RequestContext, request: DescribeConfigsRequest
    ) -> DescribeConfigsResponse:
        """Describe each resource, or say why not. A few bytes may ask for much, so small requests are paced, too."""
        pace = self._slices.pace()
        topics = {
            r.resource_name for r in request.resources if r.resource_type == ResourceType.TOPIC
        }
        if self._has_own_registry or not topics:  # no other broker changes settings
            return await self._describe_all(context, request, {}, pace)
        describe, kind = AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC
        known = [
            name
            for name in sorted(topics & self._metadata.topics.keys())
            if context.allows(describe, kind, name, is_asked=False)
        ]
        return await self._describe_all(context, request, await self._stored(known), pace)

    async def _stored(self, topics: Iterable[str]) -> Stored:
        """Read what topics override from the registry."""
        stored: dict[str, Mapping[str, str]] = {}
        for name in topics:
            try:
                stored[name] = await self._stored_of(name)
            except (ConnectionError, ValueError, TypeError, AttributeError) as error:
                log.warning("stored settings not read topic=%s reason=%r", name, error)
        return stored

    async def _stored_of(self, topic: str) -> Mapping[str, str]:
        try:
            data, _stat = await self._registry.get(znodes.config_path("topics", topic))
        except RegistryRefused as refused:
            require_no_node(refused)
            return {}
        return znodes.decode_config(data)

    async def _describe_all(
        self,
        context: RequestContext,
        request: DescribeConfigsRequest,
        stored: Stored,
        pace: Pace,
    ) -> DescribeConfigsResponse:
        """Describe each resource once, and answer it as often as it is named."""
        described: dict[
            tuple[int, str, frozenset[str] | None], DescribeConfigsResponseResource
        ] = {}
        repetitions = Repetitions("DESCRIBE_CONFIGS")
        results = []
        for resource in request.resources:
            names = resource.configuration_keys
            keys = frozenset(names) if names else None
            which = resource.resource_type, resource.resource_name, keys
            result = described.get(which)
            if result is None:
                result = self._describe(context, resource, keys, request, stored)
                described[which] = result
                steps = _STEPS_OF_NONE + 4 * len(result.configs)
            else:
                repetitions.add(result)
                steps = 1
            results.append(result)
            if pace.is_over(steps):
                await pace.rest()
        return DescribeConfigsResponse(results=results)

    def _describe(
        self,
        context: RequestContext,
        resource: DescribeConfigsRequestResource,
        keys: frozenset[str] | None,
        request: DescribeConfigsRequest,
        stored: Stored,
    ) -> DescribeConfigsResponseResource:
        result = DescribeConfigsResponseResource(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        kind, name = resource.resource_type, resource.resource_name
        try:
            check_access(context, AclOperation.DESCRIBE_CONFIGS, kind, name)
            rows = self._rows(resource, stored)
        except ConfigRefused as refused:
            result.error_code, result.error_message = refused.code, str(refused)
            return result
        for row in rows:
            if keys is None or row.setting.name in keys:
                result.configs.append(_config(row, request, context.version))
        return result

    def _rows(
        self, resource: DescribeConfigsRequestResource, stored: Stored
    ) -> Iterable[ConfigEntry]:
        """Return the rows of a resource. Raise ConfigRefused."""
        name = resource.resource_name
        if resource.resource_type == ResourceType.TOPIC:
            reason = bad_name(name)
            if reason is not None:
                message = f"Topic name is invalid: {reason}"
                raise ConfigRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
            if name not in self._metadata.topics:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise ConfigRefused(code, code.message)
            return self._effective_configs.describe_topic(name, stored.get(name))
        if resource.resource_type == ResourceType.BROKER:
            check_broker_resource(name, self._broker_id)
            return self._effective_configs.describe_broker(default=name == "")
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            check_logger_resource(name, self._broker_id)
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
        config_type=row.setting.reported_type,
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
