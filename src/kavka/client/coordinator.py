"""The coordinator of a group or of a transactional id: found once, looked up again when it has moved."""

from __future__ import annotations

from kavka.client.cluster import Cluster, CoordinatorKind
from kavka.ids import BrokerId
from kavka.net.peer import Peer


class Coordinator:
    """The coordinator of one key, looked up when it is not known."""

    def __init__(self, cluster: Cluster, kind: CoordinatorKind, key: str) -> None:
        """Look for nothing before `peer`."""
        self._cluster = cluster
        self._kind = kind
        self._key = key
        self._broker_id: BrokerId | None = None

    async def peer(self) -> Peer:
        """Return a connection to it, finding it if need be. Raise KafkaError, OSError."""
        if self._broker_id is None:
            self._broker_id = await self._cluster.find_coordinator(self._key, self._kind)
        try:
            return await self._cluster.peer(self._broker_id)
        except OSError:
            self._broker_id = None
            raise

    def forget(self) -> None:
        """Look it up again."""
        self._broker_id = None
