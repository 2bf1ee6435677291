"""Features that a whole cluster agrees on, by level (KIP-584): what this release knows, and which changes may be. Pure.

A broker says in its registration which levels it supports. A level is finalised when every broker supports it; from
then on a broker that does not must not join. `transaction.version` is 0 or 1 (the same here) while producers announce
their partitions, 2 when brokers add them and each end of a transaction gives a new epoch (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

TRANSACTION_VERSION: Final = "transaction.version"
NEWEST_TRANSACTION_VERSION: Final = 2

Ranges = Mapping[str, tuple[int, int]]
"""The lowest and the highest level of each feature."""
Levels = Mapping[str, int]
"""The finalised level of each feature; one that is not named has level 0."""

SUPPORTED: Final[Ranges] = {TRANSACTION_VERSION: (0, NEWEST_TRANSACTION_VERSION)}


class FeatureUpdate(NamedTuple):
    """A requested feature level, even a lower one if `may_lower`."""

    feature: str
    level: int
    may_lower: bool


def refusal(update: FeatureUpdate, levels: Levels, brokers: Mapping[int, Ranges]) -> str | None:
    """Return why an update must not be, None if it may; `brokers` is what the live ones support."""
    feature, level, may_lower = update
    if feature not in SUPPORTED:
        return "Could not apply finalized feature update because the provided feature is not supported."
    present = levels.get(feature, 0)
    if level < present and not may_lower:
        return (
            f"Can not downgrade finalized feature: '{feature}' from existing maxVersionLevel:{present}"
            f" to provided maxVersionLevel:{level} without setting the allowDowngrade flag in the request."
        )
    unable = [
        one for one, ranges in sorted(brokers.items()) if not _includes(ranges, feature, level)
    ]
    if unable:
        return (
            "Could not apply finalized feature update because brokers were found to have incompatible"
            f" versions for the feature: {', '.join(map(str, unable))}."
        )
    return None


def updated(levels: Levels, updates: Iterable[FeatureUpdate]) -> dict[str, int]:
    """Return the levels after updates that are allowed; a feature of level 0 is not named."""
    after = dict(levels)
    for update in updates:
        after[update.feature] = update.level
    return {feature: level for feature, level in after.items() if level > 0}


def unsupported(levels: Levels) -> list[str]:
    """Return the finalised features, with their levels, that this release cannot take part in."""
    return [
        f"{feature}={level}"
        for feature, level in sorted(levels.items())
        if not _includes(SUPPORTED, feature, level)
    ]


def _includes(ranges: Ranges, feature: str, level: int) -> bool:
    lowest, highest = ranges.get(feature, (0, 0))
    return level == 0 or lowest <= level <= highest
