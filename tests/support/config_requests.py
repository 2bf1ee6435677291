"""An administrator's requests about settings, as the tests of a broker send them."""

from __future__ import annotations

from typing import Any

from kavka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from kavka.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from support.one_broker import Served

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)

Change = tuple[str, int, str | None]
"""A setting, what happens to it, and a value."""
Resource = tuple[int, str, list[Change]]


async def described(served: Served, kind: int, name: str, keys: list[str] | None = None) -> Any:
    """Return the result of DescribeConfigs for one resource."""
    asked = DescribeConfigsRequestResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=True)
    (result,) = (await served.send(request)).results
    return result


async def altered(served: Served, *resources: Resource) -> list[Any]:
    """Return the responses of IncrementalAlterConfigs, one for each resource."""
    asked = [
        IncrementalAlterConfigsRequestResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                IncrementalAlterConfigsRequestConfig(name=key, config_operation=what, value=value)
                for key, what, value in changes
            ],
        )
        for kind, name, changes in resources
    ]
    response = await served.send(IncrementalAlterConfigsRequest(resources=asked))
    return list(response.responses)
