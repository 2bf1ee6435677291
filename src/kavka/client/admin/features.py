"""Features of the cluster: what brokers support, what is finalised, and how that is changed (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from kavka.client import arguments
from kavka.client.admin.router import Router, plain, refusal
from kavka.errors import KafkaError
from kavka.net.peer import SOFTWARE, Peer
from kavka.wire.apis import ApiKey
from kavka.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kavka.wire.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeature,
    UpdateFeaturesResponse,
)

_FIRST_WITH_VALIDATION = 1


class UpgradeType(IntEnum):
    """The permitted direction of a level's change."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """The level that a feature is to have; 0 turns it off."""

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


class FeatureMetadata(NamedTuple):
    """A broker's features: the minimum and maximum supported level, and the finalised level."""

    supported: dict[str, tuple[int, int]]
    finalized: dict[str, int]
    finalized_epoch: int
    """Grows with every change; -1 where nothing was ever finalised."""


async def describe_features(router: Router, timeout_ms: int | None) -> FeatureMetadata:
    """See `Admin.describe_features`."""
    name, version = SOFTWARE
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    response: ApiVersionsResponse = await router.any(
        plain(request), lambda a: (a.error_code,), timeout_ms
    )
    refused = refusal(response.error_code)
    if refused is not None:
        raise refused
    return FeatureMetadata(
        {one.name: (one.min_version, one.max_version) for one in response.supported_features},
        {one.name: one.max_version_level for one in response.finalized_features},
        response.finalized_features_epoch,
    )


async def update_features(
    router: Router,
    updates: Mapping[str, FeatureUpdate],
    validate_only: bool,
    timeout_ms: int | None,
) -> dict[str, KafkaError | None]:
    """See `Admin.update_features`."""
    for feature, update in arguments.by("updates", updates, str).items():
        arguments.one(f"what {feature} gets", update, FeatureUpdate)

    def build(peer: Peer) -> tuple[UpdateFeaturesRequest, int]:
        version = peer.version_of(ApiKey.UPDATE_FEATURES)
        request = UpdateFeaturesRequest(
            timeout_ms=router.timeout_ms(timeout_ms), validate_only=validate_only
        )
        for feature, (level, kind) in updates.items():
            row = UpdateFeaturesRequestFeature(feature=feature, max_version_level=level)
            if version >= _FIRST_WITH_VALIDATION:
                row.upgrade_type = kind
            else:
                row.allow_downgrade = kind is not UpgradeType.UPGRADE
            request.feature_updates.append(row)
        return request, version

    response: UpdateFeaturesResponse = await router.controller(
        build, lambda a: (a.error_code,), timeout_ms
    )
    refused = refusal(response.error_code, response.error_message)
    if refused is not None:
        raise refused
    return {one.feature: refusal(one.error_code, one.error_message) for one in response.results}
