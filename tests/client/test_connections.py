"""Connections to brokers: at most one for each purpose."""

import asyncio

import pytest

from kavka.client.config import ADMIN, Config
from kavka.client.connections import Channel, Connections
from kavka.client.metadata import MetadataCache
from kavka.net.clock import SystemRandom
from kavka.net.peer_security import PLAINTEXT


def unconnected(broker, settings):
    return Connections(
        Config(ADMIN, settings), MetadataCache(60_000), broker, SystemRandom(), PLAINTEXT
    )


def test_calls_at_the_same_time_get_the_same_first_connection(broker, settings):
    async def main() -> None:
        connections = unconnected(broker, settings)
        peers = await asyncio.gather(*(connections.any_peer() for _ in range(3)))
        assert len({id(peer) for peer in peers}) == 1
        assert not peers[0].is_closed
        await connections.close()

    asyncio.run(main())


def test_no_connection_outlives_or_follows_the_close(broker, settings):
    """A listener may close its client in the middle of a call, which then goes on."""

    async def main() -> None:
        connections = unconnected(broker, settings)
        opening = asyncio.create_task(connections.any_peer())
        await asyncio.sleep(0)
        await connections.close()
        with pytest.raises(ConnectionError, match="the client was closed"):
            await opening
        opened = len(broker.links)
        for connection in (connections.any_peer(), connections.peer(0, Channel.MAIN)):
            with pytest.raises(ConnectionError):
                await connection
        assert len(broker.links) == opened

    asyncio.run(main())
