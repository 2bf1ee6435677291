"""UpdateFeatures: levels that the whole cluster uses are raised or lowered (KIP-584)."""

from __future__ import annotations

from kavka.broker.control.controller import Controller
from kavka.broker.control.controller_term import NotControllerError
from kavka.broker.control.finalized_features import Features
from kavka.broker.control.registry_writer import ControllerMovedError
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.memory import check_count
from kavka.core.features import FeatureUpdate
from kavka.errors import ErrorCode, error_message
from kavka.registry.interface import RegistryRefused
from kavka.wire.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpdateFeaturesResponseFeature,
)

_DOWNWARDS = (2, 3)
_MAX_FEATURES = 1000


async def handle(
    features: Features,
    controller: Controller,
    context: RequestContext,
    request: UpdateFeaturesRequest,
) -> UpdateFeaturesResponse:
    """Update finalized features through the controller."""
    named = {one.feature: one for one in request.feature_updates}
    check_count("UPDATE_FEATURES", "features", len(named), _MAX_FEATURES)
    updates = [
        FeatureUpdate(
            one.feature,
            max(one.max_version_level, 0),
            one.allow_downgrade if context.version == 0 else one.upgrade_type in _DOWNWARDS,
        )
        for one in named.values()
    ]
    try:
        verdicts = await controller.update_features(updates, validate_only=request.validate_only)
    except (NotControllerError, ControllerMovedError):
        code = ErrorCode.NOT_CONTROLLER
        return UpdateFeaturesResponse(error_code=code, error_message=code.message)
    except (ConnectionError, RegistryRefused) as error:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.FEATURE_UPDATE_FAILED, error_message=error_message(str(error))
        )
    await features.read()
    return UpdateFeaturesResponse(
        error_code=ErrorCode.NONE,
        results=[
            UpdateFeaturesResponseFeature(
                feature=feature,
                error_code=ErrorCode.NONE if refusal is None else ErrorCode.INVALID_REQUEST,
                error_message=refusal and error_message(refusal),
            )
            for feature, refusal in verdicts.items()
        ],
    )
