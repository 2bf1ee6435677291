"""The broker's identity: its id and its cluster's, in `meta.properties` of every directory and in the registry."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.core.znodes import ZnodeError
from kavka.ids import BrokerId, uuid_text
from kavka.io import Random
from kavka.registry.embedded import EmbeddedRegistry
from kavka.registry.interface import Registry, RegistryRefused, decode_or_none, ensure_path
from kavka.storage.checkpoint.meta_properties import MetaProperties
from kavka.wire.stored import znodes

log = logging.getLogger(__name__)


class IdentityError(Exception):
    """The directories, the settings and the registry do not belong together; the message says which and what to do."""


class Identity(NamedTuple):
    """The ids of the broker and of its cluster."""

    broker_id: BrokerId
    cluster_id: str


async def establish_identity(
    config: BrokerConfig, registry: Registry, replica_manager: ReplicaManager, random: Random
) -> Identity:
    """Find or make the broker id and the cluster id. Raise IdentityError.

    Where no other broker could have the id it is stored at once; else the broker that registers with it does that.
    """
    found = await replica_manager.read_meta()
    cluster_id = await _cluster_id(registry, found, random)
    broker_id = await _broker_id(config, registry, found)
    for path, meta in found.items():
        if meta is not None and meta.cluster_id is not None and meta.cluster_id != cluster_id:
            raise IdentityError(
                f"The Cluster ID {cluster_id} doesn't match stored clusterId Some({meta.cluster_id}) in "
                f"meta.properties of {path}. The broker is trying to join the wrong cluster: use another log.dirs."
            )
    if isinstance(registry, EmbeddedRegistry):
        await _refuse_others_topics(registry, broker_id)
        await replica_manager.write_meta(broker_id, cluster_id)
    return Identity(broker_id, cluster_id)


async def refuse_other_cluster(registry: Registry, cluster_id: str) -> None:
    """Raise IdentityError when the registry is not of this cluster any more, RegistryRefused when it is of none."""
    data, _stat = await registry.get(znodes.CLUSTER_ID)
    found = znodes.decode_cluster_id(data)
    if found != cluster_id:
        raise IdentityError(
            f"The registry at zookeeper.connect is of cluster {found} now, but this broker belongs to {cluster_id}: "
            "it has lost its data, or another one answers. Restore a backup, or correct zookeeper.connect."
        )


async def _cluster_id(
    registry: Registry, found: Mapping[str, MetaProperties | None], random: Random
) -> str:
    stat = await registry.stat(znodes.CLUSTER_ID)
    if stat is not None:
        data, _stat = await registry.get(znodes.CLUSTER_ID)
        return znodes.decode_cluster_id(data)
    known = [
        meta.cluster_id
        for meta in found.values()
        if meta is not None and meta.cluster_id is not None
    ]
    if known and not isinstance(registry, EmbeddedRegistry):
        # As a new cluster's, these logs would be renamed to `-stray`: a mistyped chroot is enough.
        raise IdentityError(
            f"The registry at zookeeper.connect has no cluster, but meta.properties of log.dirs has the Cluster ID "
            f"{known[0]}. Is zookeeper.connect right, with its chroot? For a registry that has lost its data restore a "
            "backup; to start again with these directories, create its znode /cluster/id (docs/how-to/recover.md)."
        )
    cluster_id = known[0] if known else uuid_text(random.random_bytes(16))
    await ensure_path(registry, "/cluster")
    try:
        await registry.create(znodes.CLUSTER_ID, znodes.encode_cluster_id(cluster_id))
    except RegistryRefused as refused:
        if refused.error is not ZnodeError.NODE_EXISTS:
            raise
        # Another broker of a new cluster starts at the same time, and was first.
        data, _stat = await registry.get(znodes.CLUSTER_ID)
        return znodes.decode_cluster_id(data)
    return cluster_id


async def _broker_id(
    config: BrokerConfig, registry: Registry, found: Mapping[str, MetaProperties | None]
) -> BrokerId:
    """Return the id of the settings, else the stored one, else a new one."""
    stored = {
        meta.broker_id
        for meta in found.values()
        if meta is not None and meta.broker_id is not None and meta.broker_id >= 0
    }
    if len(stored) > 1:
        raise IdentityError(
            f"Stored broker ids differ between log.dirs: {sorted(stored)}. They belong to different brokers."
        )
    asked = config.integer("broker.id")
    if stored:
        (known,) = stored
        if asked >= 0 and asked != known:
            raise IdentityError(
                f"Configured broker.id {asked} doesn't match stored broker.id {known} in meta.properties. "
                "Either the broker.id or log.dirs is wrong."
            )
        return BrokerId(known)
    if asked >= 0:
        return BrokerId(asked)
    return BrokerId(await _generated_id(registry, config.integer("reserved.broker.max.id")))


async def _refuse_others_topics(registry: Registry, broker_id: BrokerId) -> None:
    """Refuse another id with an embedded registry: the broker would lead none of its topics."""
    for name in await registry.children(znodes.TOPICS):
        path = znodes.topic_path(name)
        data, _stat = await registry.get(path)
        node = decode_or_none(data, znodes.TopicNode.decode, path)
        if node is None:
            continue
        owners = {owner for owners in node.assignment.values() for owner in owners}
        if broker_id not in owners:
            raise IdentityError(
                f"Topic {name} belongs to broker {sorted(owners)}, but this broker would be {broker_id}, because its "
                f"meta.properties is missing. Restore the file, or set broker.id={min(owners)}."
            )


async def _generated_id(registry: Registry, largest_reserved: int) -> int:
    """Count up `/brokers/seqid`: its version is the sequence, above the reserved ids.

    A lone broker with an embedded registry is number 0 when no other broker could have had it.
    """
    stat = await registry.stat(znodes.BROKER_SEQUENCE)
    is_alone = isinstance(registry, EmbeddedRegistry) and stat is not None and stat.version == 0
    if is_alone and not await registry.children(znodes.BROKER_IDS):
        await registry.set(znodes.BROKER_SEQUENCE, b"")
        return 0
    try:
        stat = await registry.set(znodes.BROKER_SEQUENCE, b"")
    except RegistryRefused as refused:
        if refused.error is not ZnodeError.NO_NODE:
            raise
        await ensure_path(registry, znodes.BROKER_SEQUENCE)
        stat = await registry.set(znodes.BROKER_SEQUENCE, b"")
    return largest_reserved + stat.version
