"""The controller's part in features: it begins a new cluster with a level, and changes levels when it is asked to."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kavka.broker.context import BrokerContext
from kavka.broker.control.registry_writer import RegistryWriter
from kavka.core.features import (
    NEWEST_TRANSACTION_VERSION,
    TRANSACTION_VERSION,
    FeatureUpdate,
    Levels,
    Ranges,
    refusal,
    updated,
)
from kavka.registry.interface import Registry, RegistryRefused
from kavka.wire.stored import znodes

log = logging.getLogger(__name__)


async def initialize_features(context: BrokerContext, writer: RegistryWriter) -> None:
    """Write the features of a cluster that has none yet. Raise ControllerMovedError, ConnectionError."""
    if await context.registry.stat(znodes.FEATURE) is not None:
        return
    level = context.config.values["kavka.transaction.version"]
    if level is None:
        # Only this broker uses an embedded registry. Brokers of Apache Kafka may join a shared one, and
        # those that lack a feature stop once it is finalised.
        level = NEWEST_TRANSACTION_VERSION if context.has_own_registry else 0
    assert isinstance(level, int)
    levels = updated({}, [FeatureUpdate(TRANSACTION_VERSION, level, may_lower=False)])
    await writer.put(znodes.FEATURE, znodes.encode_features(levels), None)
    log.info("features of a new cluster levels=%s", levels)


async def update_features(
    registry: Registry,
    writer: RegistryWriter,
    updates: Sequence[FeatureUpdate],
    *,
    validate_only: bool,
) -> dict[str, str | None]:
    """Finalise levels; return by feature why not, None where it is done.

    Raise ControllerMovedError, ConnectionError, and RegistryRefused when another writer has changed them meanwhile.
    """
    stat = await registry.stat(znodes.FEATURE)
    levels: Levels = {}
    if stat is not None:
        data, stat = await registry.get(znodes.FEATURE)
        levels = znodes.decode_features(data)
    brokers = await _supported(registry)
    verdicts = {update.feature: refusal(update, levels, brokers) for update in updates}
    allowed = [update for update in updates if verdicts[update.feature] is None]
    after = updated(levels, allowed)
    if after != levels and not validate_only:
        data = znodes.encode_features(after)
        await writer.put(znodes.FEATURE, data, None if stat is None else stat.version)
        log.info("features changed levels=%s", after)
    return verdicts


async def _supported(registry: Registry) -> dict[int, Ranges]:
    """Return what each live broker supports."""
    found: dict[int, Ranges] = {}
    for name in await registry.children(znodes.BROKER_IDS):
        try:
            data, _stat = await registry.get(f"{znodes.BROKER_IDS}/{name}")
        except RegistryRefused:
            continue  # gone meanwhile
        found[int(name)] = znodes.BrokerNode.decode(data).features
    return found
