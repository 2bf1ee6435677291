"""ApiVersions: which APIs this broker serves, in which versions, and which features the cluster has finalised."""

from __future__ import annotations

import re
from functools import lru_cache
from struct import Struct

from kavka.broker.control.finalized_features import Features
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.served_apis import SUPPORTED_APIS, version_ranges
from kavka.core.features import SUPPORTED
from kavka.errors import ErrorCode
from kavka.wire.frame import EncodedResponse, encode_response
from kavka.wire.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseFinalizedFeature,
    ApiVersionsResponseSupportedFeature,
)

_CORRELATION_ID = Struct(">i")
_CORRELATION_ID_POSITION = 4  # behind the size
_FIRST_WITH_LEVEL_0 = 4
"""Clients of older versions cannot read that a feature is supported from level 0 on."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

_MAX_SOFTWARE = 64
"""Characters of a name and of a version that are kept."""


def handle(
    features: Features, context: RequestContext, request: ApiVersionsRequest
) -> ApiVersionsResponse | EncodedResponse:
    """List the served APIs. INVALID_REQUEST for a software name or version that is not well formed (KIP-511)."""
    if context.version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.session.software = (name[:_MAX_SOFTWARE], version[:_MAX_SOFTWARE])
    frame = EncodedResponse(_frame(context.version, features.epoch, tuple(features.levels.items())))
    _CORRELATION_ID.pack_into(frame, _CORRELATION_ID_POSITION, context.header.correlation_id)
    return frame


@lru_cache(maxsize=16)
def _frame(version: int, features_epoch: int, levels: tuple[tuple[str, int], ...]) -> bytes:
    """Return the frame of a response but for its correlation id: all clients ask first, and are answered alike."""
    response = ApiVersionsResponse(
        api_keys=version_ranges(SUPPORTED_APIS),
        supported_features=[
            ApiVersionsResponseSupportedFeature(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in SUPPORTED.items()
            if lowest > 0 or version >= _FIRST_WITH_LEVEL_0
        ],
        finalized_features_epoch=features_epoch,
        finalized_features=[
            ApiVersionsResponseFinalizedFeature(
                name=name, max_version_level=level, min_version_level=level
            )
            for name, level in levels
        ],
    )
    parts = encode_response(response, version, 0)
    return b"".join(part for part in parts if isinstance(part, bytes | bytearray | memoryview))
