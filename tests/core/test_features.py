"""Allowed changes of finalised features."""

from __future__ import annotations

import pytest

from kavka.core.features import (
    SUPPORTED,
    TRANSACTION_VERSION,
    FeatureUpdate,
    Levels,
    Ranges,
    refusal,
    unsupported,
    updated,
)

OURS: dict[int, Ranges] = {1: SUPPORTED, 2: SUPPORTED}
MIXED: dict[int, Ranges] = {**OURS, 3: {}}  # Apache Kafka 3.9 names no features


@pytest.mark.parametrize(
    ("wanted", "levels", "brokers", "reason"),
    [
        (FeatureUpdate(TRANSACTION_VERSION, 2, False), {}, OURS, None),
        (FeatureUpdate(TRANSACTION_VERSION, 2, False), {TRANSACTION_VERSION: 2}, OURS, None),
        (FeatureUpdate(TRANSACTION_VERSION, 2, False), {}, MIXED, "incompatible versions for the feature: 3."),
        (FeatureUpdate(TRANSACTION_VERSION, 3, False), {}, OURS, "incompatible versions for the feature: 1, 2."),
        (FeatureUpdate(TRANSACTION_VERSION, 0, False), {TRANSACTION_VERSION: 2}, OURS, "Can not downgrade"),
        (FeatureUpdate(TRANSACTION_VERSION, 0, True), {TRANSACTION_VERSION: 2}, MIXED, None),
        (FeatureUpdate("group.version", 1, False), {}, OURS, "not supported"),
    ],
)  # fmt: skip
def test_a_level_is_finalised_when_every_broker_supports_it(
    wanted: FeatureUpdate, levels: Levels, brokers: dict[int, Ranges], reason: str | None
) -> None:
    refused = refusal(wanted, levels, brokers)
    if reason is None:
        assert refused is None
    else:
        assert refused is not None
        assert reason in refused


def test_a_feature_of_level_0_is_not_named() -> None:
    raised = updated({}, [FeatureUpdate(TRANSACTION_VERSION, 2, False)])
    assert raised == {TRANSACTION_VERSION: 2}
    assert updated(raised, [FeatureUpdate(TRANSACTION_VERSION, 0, True)]) == {}


def test_features_of_another_release_are_reported() -> None:
    assert unsupported({TRANSACTION_VERSION: 2}) == []
    assert unsupported({TRANSACTION_VERSION: 3, "group.version": 1}) == [
        "group.version=1",
        "transaction.version=3",
    ]
