"""Raises or lowers the levels of features that the whole cluster uses (KIP-584)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i8, i16, i32, message, string, struct


@struct
class UpdateFeaturesRequestFeature:
    """The level that one feature is to have."""

    feature: string = field()
    max_version_level: i16 = field()
    """0 and below turns the feature off, which is a downgrade."""
    allow_downgrade: boolean = field("0")
    """True if the level may be lower than it is."""
    upgrade_type: i8 = field("1+", default=1)
    """1: only upwards. 2: downwards, where nothing is lost by it. 3: downwards in any case."""


@message(api_key=57, versions="0-1", flexible="0+")
class UpdateFeaturesRequest:
    """Asks the controller."""

    timeout_ms: i32 = field(default=60_000)
    feature_updates: list[UpdateFeaturesRequestFeature] = field()
    validate_only: boolean = field("1+")
    """True if the updates are validated but not made."""


@struct
class UpdateFeaturesResponseFeature:
    """Result for one feature."""

    feature: string = field()
    error_code: i16 = field()
    """INVALID_REQUEST: no such feature, or a level that some broker does not support, or lower
    without leave. FEATURE_UPDATE_FAILED: not written.
    """
    error_message: string | None = field(nullable="0+", default=None)


@message(api_key=57, versions="0-1", flexible="0+")
class UpdateFeaturesResponse:
    """Result for each feature; one that is refused does not prevent the others."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """NOT_CONTROLLER. CLUSTER_AUTHORIZATION_FAILED."""
    error_message: string | None = field(nullable="0+", default=None)
    results: list[UpdateFeaturesResponseFeature] = field(ignorable=True)
