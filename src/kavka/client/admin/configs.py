"""Configurations of topics, brokers and loggers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from kavka.client import arguments
from kavka.client.admin.router import Router, plain, refusal
from kavka.errors import KafkaError
from kavka.ids import BrokerId
from kavka.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
)
from kavka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
)
from kavka.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)


class ResourceType(IntEnum):
    """The type of a configuration resource."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One configurable thing; a broker's name is its id, the empty name stands for all brokers."""

    type: ResourceType
    name: str

    @property
    def target_broker(self) -> BrokerId | None:
        """The broker that must be asked, None for any."""
        if self.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and self.name:
            return BrokerId(int(self.name))
        return None


class AlterOp(IntEnum):
    """The operation on a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigOp(NamedTuple):
    """One change."""

    name: str
    value: str | float | bool | None
    op: AlterOp = AlterOp.SET


class ConfigSynonym(NamedTuple):
    """A synonym that could provide a setting's value."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """A setting as a broker shows it; `source` and `type` are the numbers of DescribeConfigs."""

    name: str
    value: str | None
    source: int
    is_sensitive: bool
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: int = 0
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Return whether the value is the default."""
        return self.source == 5


async def describe_configs(
    router: Router,
    resources: Iterable[ConfigResource] | Mapping[ConfigResource, Sequence[str] | None],
    include_synonyms: bool,
    include_documentation: bool,
    timeout_ms: int | None,
) -> dict[ConfigResource, list[ConfigEntry] | KafkaError]:
    """See `Admin.describe_configs`."""
    wanted = _named(resources)

    async def ask(
        broker_id: BrokerId | None, group: list[ConfigResource]
    ) -> DescribeConfigsResponse:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequestResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configuration_keys=wanted[resource],
                )
                for resource in group
            ],
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
        )
        response: DescribeConfigsResponse = await _send(router, broker_id, request, timeout_ms)
        return response

    found: dict[ConfigResource, list[ConfigEntry] | KafkaError] = {}
    groups = _by_target_broker(wanted)
    outcomes = await router.gather(
        (broker_id, ask(broker_id, group)) for broker_id, group in groups.items()
    )
    for broker_id, outcome in outcomes.items():
        if isinstance(outcome, BaseException):
            if not isinstance(outcome, KafkaError):
                raise outcome
            found.update((resource, outcome) for resource in groups[broker_id])
            continue
        for result in outcome.results:
            resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
            error = refusal(result.error_code, result.error_message)
            found[resource] = error or [_entry(config) for config in result.configs]
    return found


def _named(
    resources: Iterable[ConfigResource] | Mapping[ConfigResource, Sequence[str] | None],
) -> dict[ConfigResource, list[str] | None]:
    """Return the settings that are wanted of each resource, None for all."""
    if not isinstance(resources, Mapping):
        return dict.fromkeys(arguments.each("resources", resources, ConfigResource))
    return {
        resource: None if names is None else arguments.names(f"what is wanted of {resource}", names)
        for resource, names in arguments.by("resources", resources, ConfigResource).items()
    }


def _entry(config: DescribeConfigsResponseConfig) -> ConfigEntry:
    return ConfigEntry(
        config.name,
        config.value,
        5 if config.is_default else config.config_source,
        config.is_sensitive,
        config.read_only,
        tuple(ConfigSynonym(s.name, s.value, s.source) for s in config.synonyms),
        config.config_type,
        config.documentation,
    )


async def incremental_alter_configs(
    router: Router,
    changes: Mapping[ConfigResource, Sequence[ConfigOp]],
    validate_only: bool,
    timeout_ms: int | None,
) -> dict[ConfigResource, KafkaError | None]:
    """See `Admin.incremental_alter_configs`."""
    for resource, ops in arguments.by("changes", changes, ConfigResource).items():
        arguments.each(f"what is changed of {resource}", ops, ConfigOp)

    def build(group: list[ConfigResource]) -> IncrementalAlterConfigsRequest:
        return IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsRequestResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        IncrementalAlterConfigsRequestConfig(
                            name=name, config_operation=op, value=arguments.setting(name, value)
                        )
                        for name, value, op in changes[resource]
                    ],
                )
                for resource in group
            ],
            validate_only=validate_only,
        )

    return await _alter(router, changes, build, timeout_ms)


async def alter_configs(
    router: Router,
    configs: Mapping[ConfigResource, Mapping[str, str | float | bool | None]],
    validate_only: bool,
    timeout_ms: int | None,
) -> dict[ConfigResource, KafkaError | None]:
    """See `Admin.alter_configs`."""
    for resource, settings in arguments.by("replacement", configs, ConfigResource).items():
        arguments.by(f"what {resource} gets", settings, str)

    def build(group: list[ConfigResource]) -> AlterConfigsRequest:
        return AlterConfigsRequest(
            resources=[
                AlterConfigsRequestResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        AlterConfigsRequestConfig(name=name, value=arguments.setting(name, value))
                        for name, value in configs[resource].items()
                    ],
                )
                for resource in group
            ],
            validate_only=validate_only,
        )

    return await _alter(router, configs, build, timeout_ms)


async def _alter(
    router: Router, resources: Iterable[ConfigResource], build: Any, timeout_ms: int | None
) -> dict[ConfigResource, KafkaError | None]:
    found: dict[ConfigResource, KafkaError | None] = {}
    groups = _by_target_broker(resources)
    outcomes = await router.gather(
        (broker_id, _send(router, broker_id, build(group), timeout_ms))
        for broker_id, group in groups.items()
    )
    for broker_id, outcome in outcomes.items():
        if isinstance(outcome, BaseException):
            if not isinstance(outcome, KafkaError):
                raise outcome
            found.update((resource, outcome) for resource in groups[broker_id])
            continue
        for result in outcome.responses:
            resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
            found[resource] = refusal(result.error_code, result.error_message)
    return found


async def _send(
    router: Router, broker_id: BrokerId | None, request: Any, timeout_ms: int | None
) -> Any:
    if broker_id is None:
        return await router.any(plain(request), lambda _: (), timeout_ms)
    return await router.broker(broker_id, plain(request), lambda _: (), timeout_ms)


def _by_target_broker(
    resources: Iterable[ConfigResource],
) -> dict[BrokerId | None, list[ConfigResource]]:
    groups: dict[BrokerId | None, list[ConfigResource]] = {}
    for resource in resources:
        groups.setdefault(resource.target_broker, []).append(resource)
    return groups
