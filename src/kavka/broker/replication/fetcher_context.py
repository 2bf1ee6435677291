"""The context of the replica fetchers: settings, connections to leaders, the throttle of followers."""

from __future__ import annotations

from kavka.broker.context import BrokerContext
from kavka.broker.replication.throttle import FollowerThrottle
from kavka.ids import BrokerId
from kavka.net.peer import Peer

_CONNECT_MS = 10_000


class FetcherContext:
    """The environment of a `ReplicaFetcher`."""

    def __init__(self, context: BrokerContext, throttle: FollowerThrottle) -> None:
        """Read the settings that are fixed at the start."""
        self._context = context
        config = context.config
        self.throttle = throttle
        self.clock = context.clock
        self.broker_id = context.broker_id
        self.backoff_ms = max(1, config.integer("replica.fetch.backoff.ms"))
        self.timeout_ms = config.integer("replica.socket.timeout.ms")
        self.max_bytes = config.integer("replica.fetch.max.bytes")
        self.max_response_bytes = config.integer("replica.fetch.response.max.bytes")
        self.wait_ms = config.integer("replica.fetch.wait.max.ms")
        self.min_bytes = config.integer("replica.fetch.min.bytes")
        self.throttle_pause_ms = 100

    async def connect(self, leader: BrokerId, client_id: str) -> Peer:
        """Connect to a broker. Raise OSError, also when its address is unknown."""
        context = self._context
        live = context.metadata.brokers.get(leader)
        endpoint = None if live is None else live.endpoint(context.config.inter_broker_listener)
        if endpoint is None:
            raise ConnectionError(f"broker {leader} is not known to be alive")
        return await Peer.connect(
            context.environment.network,
            endpoint.host,
            endpoint.port,
            client_id=client_id,
            timeout_ms=min(_CONNECT_MS, self.timeout_ms),
            security=context.peer_security,
        )

    def leader_unreachable(self, leader: BrokerId) -> None:
        """Note that the connection to a leader broke."""
        self._context.metadata.mark_unreachable(leader, self.clock.tick_ms())

    def leader_reached(self, leader: BrokerId) -> None:
        """Note that a leader answers."""
        self._context.metadata.mark_reachable(leader)

    def broker_epoch(self) -> int:
        """Return the epoch of this broker's registration."""
        return self._context.broker_epoch
