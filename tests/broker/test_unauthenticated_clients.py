"""Clients that do not authenticate: the memory and the lines of the log that they may cost, all together."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest

from kavka.errors import AuthenticationFailed
from kavka.net import bounded_log
from support.sasl import Server, run_beside
from support.waiting import until

_KIB = 1024


async def half_request(server: Server, size: int, sent: int) -> asyncio.StreamWriter:
    _reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(struct.pack(">i", size) + bytes(sent))
    await writer.drain()
    return writer


def test_half_requests_are_bounded_in_sum_and_small_clients_get_through(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        assert server.broker.security.sasl_sessions is not None
        share = server.broker.security.sasl_sessions._share
        writers = [await half_request(server, 400 * _KIB, 100 * _KIB) for _ in range(20)]
        await until(lambda: share.closed == 18)
        assert share.held_bytes <= _KIB * _KIB
        (await server.connect("alice", "alice secret")).close()
        for writer in writers:
            writer.close()
        await until(lambda: share.held_bytes == 0)

    run_beside(tmp_path, story, **{"kavka.unauthenticated.max.bytes": str(_KIB * _KIB)})


def test_a_client_that_has_authenticated_does_not_count(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        assert server.broker.security.sasl_sessions is not None
        share = server.broker.security.sasl_sessions._share
        peer = await server.connect("alice", "alice secret")
        transport = peer._transport
        assert transport is not None
        transport.write(struct.pack(">i", 4 << 20) + bytes(2 << 20))
        (connection,) = server.broker.dispatcher.connections
        await until(lambda: connection.partial_bytes == 2 << 20)
        assert (share.held_bytes, share.closed) == (0, 0)
        peer.close()

    run_beside(tmp_path, story, **{"kavka.unauthenticated.max.bytes": str(_KIB * _KIB)})


def test_failures_of_one_address_are_a_few_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_log, "WINDOW_S", 0.5)

    async def story(server: Server) -> None:
        for _ in range(12):
            with pytest.raises(AuthenticationFailed):
                await server.connect("alice", "wrong")
        await until(lambda: "left out" in caplog.text)
        assert server.counts["CLIENTS", "PLAIN", False] == 12

    run_beside(tmp_path, story)
    lines = [record.getMessage() for record in caplog.records]
    failed = [line for line in lines if line.startswith("authentication failed peer=127.0.0.1")]
    (rest,) = [line for line in lines if "left out" in line]
    assert bounded_log.LINES <= len(failed) < 12
    assert "addresses=1 most: 127.0.0.1=" in rest
