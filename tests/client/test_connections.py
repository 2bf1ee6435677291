"""Connections to brokers: at most one for each purpose."""

import asyncio

from kavka.client.config import ADMIN, Config
from kavka.client.connections import Connections
from kavka.client.metadata import MetadataCache
from kavka.net.clock import SystemRandom


def test_who_asks_at_the_same_time_gets_the_same_first_connection(broker, settings):
    async def main() -> None:
        connections = Connections(
            Config(ADMIN, settings), MetadataCache(60_000), broker, SystemRandom()
        )
        peers = await asyncio.gather(*(connections.any_peer() for _ in range(3)))
        assert len({id(peer) for peer in peers}) == 1
        assert not peers[0].is_closed
        await connections.close()

    asyncio.run(main())
