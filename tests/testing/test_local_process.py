"""A process of a local cluster that is killed while it connects: nothing of the connection stays open."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import pytest

from kavka.testing.cut_network import Links
from kavka.testing.local_process import LocalProcess


class _Idle(asyncio.BufferedProtocol):
    """A wire on which nothing is said."""

    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(1)


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server


def _killed_while_connecting(
    listening: socket.socket, end: Callable[[LocalProcess], object]
) -> bytes:
    """Return what a peer reads of a process in which `end` is called at the moment when the socket has connected."""
    process = LocalProcess(Links(), 1)
    wires = []

    def make() -> _Idle:
        end(process)
        wires.append(_Idle())
        return wires[-1]

    port = listening.getsockname()[1]
    connecting = asyncio.run_coroutine_threadsafe(
        process.network.connect("127.0.0.1", port, make), process.loop
    )
    peer, _ = listening.accept()
    with peer:
        peer.settimeout(10)
        with contextlib.suppress(TimeoutError):
            connecting.exception(0.1)  # does not come: the process is dead
        process.kill()
        return peer.recv(1)


def test_connection_whose_loop_ends_before_it_is_made_is_closed(listening: socket.socket) -> None:
    assert _killed_while_connecting(listening, lambda process: process.loop.stop()) == b""


def test_connection_that_is_made_after_all_were_closed_is_closed(listening: socket.socket) -> None:
    assert _killed_while_connecting(listening, lambda process: process.network.abort()) == b""
