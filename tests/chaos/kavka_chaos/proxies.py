"""The network where namespaces are not allowed: a proxy in front of each port holds back what a cut link carries.

A proxy identifies a client by the owner of the other end's port. What it cannot do: refuse connections for a dead
broker. It accepts and closes, so early evidence of a death is missing here, and sessions decide.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Coroutine, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from kavka_chaos.network import CLIENTS

_CHUNK_BYTES = 64 * 1024
_LOOK_S = 0.01
_LOOPBACK = "127.0.0.1"
_T = TypeVar("_T")


class Proxies:
    """Machines by name on one loopback; a thread carries what they say to each other."""

    description = "TCP proxies: no small disks, and a dead broker's port does not refuse"
    has_disks = False

    def __init__(self, machines: Sequence[str]) -> None:
        """Begin without any port."""
        self._pids = {os.getpid(): CLIENTS}
        self._cuts: Counter[tuple[str, str]] = Counter()
        self._servers: list[asyncio.Server] = []
        self._pumps: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()

    def address(self, machine: str) -> str:
        """Return where processes listen."""
        return _LOOPBACK

    def within(self, machine: str) -> list[str]:
        """Return what goes in front of a command that is to run on a machine."""
        return []

    def runs(self, machine: str, pid: int) -> None:
        """Learn which process is a machine's."""
        self._pids[pid] = machine

    def shown(self, machine: str, port: int) -> str:
        """Open a proxy, and return where others reach a port of a machine."""

        async def serve() -> int:
            async def accepted(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
                task = asyncio.current_task()
                assert task is not None
                self._pumps.add(task)
                task.add_done_callback(self._pumps.discard)
                await self._carry(machine, port, near, back)

            server = await asyncio.start_server(accepted, _LOOPBACK, 0)
            self._servers.append(server)
            own: int = server.sockets[0].getsockname()[1]
            return own

        return f"{_LOOPBACK}:{self._ask(serve())}"

    def cut(self, sender: str, receiver: str) -> None:
        """Hold back what one machine sends to another."""
        self._cuts[sender, receiver] += 1

    def join(self, sender: str, receiver: str) -> None:
        """Take one `cut` back."""
        self._cuts[sender, receiver] -= 1

    def close(self) -> None:
        """Close all ports and connections."""

        async def end() -> None:
            for server in self._servers:
                server.close()
            for pump in list(self._pumps):
                pump.cancel()
            await asyncio.gather(*self._pumps, return_exceptions=True)

        self._ask(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _ask(self, what: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(30)

    async def _carry(
        self, machine: str, port: int, near: asyncio.StreamReader, back: asyncio.StreamWriter
    ) -> None:
        """Carry one connection until either side ends it; then it breaks for the other, too."""
        sender = self._owner(back.get_extra_info("peername")[1])
        forth: asyncio.StreamWriter | None = None
        try:
            await self._whole(sender, machine)
            far, forth = await asyncio.open_connection(_LOOPBACK, port)
            ways = [
                asyncio.ensure_future(self._pump(near, forth, sender, machine)),
                asyncio.ensure_future(self._pump(far, back, machine, sender)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass
        finally:
            for writer in (back, forth):
                if writer is not None:
                    writer.transport.abort()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, sender: str, receiver: str
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK_BYTES):
                await self._whole(sender, receiver)
                sink.write(data)
                await sink.drain()
            await self._whole(sender, receiver)  # an end is a packet, too

    async def _whole(self, sender: str, receiver: str) -> None:
        while self._cuts[sender, receiver] > 0:  # noqa: ASYNC110 - another thread cuts
            await asyncio.sleep(_LOOK_S)  # time: a proxy at work, which another thread cuts

    def _owner(self, port: int) -> str:
        """Return whose process has a port as its own end of a connection."""
        socket = f"socket:[{_inode(port)}]"
        for pid, machine in list(self._pids.items()):
            with contextlib.suppress(OSError):
                for handle in Path(f"/proc/{pid}/fd").iterdir():
                    with contextlib.suppress(OSError):
                        if os.readlink(handle) == socket:
                            return machine
        return CLIENTS


def _inode(port: int) -> str:
    """Return the inode of the loopback socket that has a port as its own."""
    wanted = f"0100007F:{port:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1] == wanted:
            return fields[9]
    return "none"
