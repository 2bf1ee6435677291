"""The real doors of one machine, put together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from kavka.net.clock import SystemChance, SystemClock
from kavka.net.listener import SocketOptions
from kavka.net.network import TcpNetwork
from kavka.settings.broker import BROKER_SETTINGS
from kavka.storage.disk import OsDisk

_CGROUPS = "/sys/fs/cgroup"


class RealHost:
    """Implements `doors.Host` with the operating system."""

    def __init__(self, *, io_threads: int = 4, sockets: SocketOptions | None = None) -> None:
        """`io_threads` run blocking system calls; `sockets` are the options of accepted connections."""
        self.clock = SystemClock()
        self.chance = SystemChance()
        self.disk = OsDisk(io_threads)
        self.network = TcpNetwork(sockets)
        self.memory_bytes = memory_bytes()

    @classmethod
    def for_settings(cls, settings: Mapping[str, str]) -> RealHost:
        """Return the doors that a broker's settings ask for. Raise InvalidSetting."""

        def whole(name: str) -> int:
            value = BROKER_SETTINGS[name].parse(settings.get(name))
            assert isinstance(value, int), name
            return value

        sockets = SocketOptions(
            whole("socket.send.buffer.bytes"),
            whole("socket.receive.buffer.bytes"),
            whole("socket.listen.backlog.size"),
            whole("kavka.connection.send.queue.bytes"),
        )
        return cls(io_threads=whole("kavka.io.threads"), sockets=sockets)


def memory_bytes() -> int:
    """Return how much memory the machine has, or what the control groups of this process allow, if that is less."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _memory_limits():
        try:
            with open(path) as file:
                text = file.read().strip()
        except OSError:
            continue  # no such group, or one that is not ours to see
        if text.isdigit():  # else "max"
            found = min(found, int(text))
    return found


def _memory_limits() -> Iterator[str]:
    """Yield where control groups say their bound: of version 1, and of version 2 for each group above this process."""
    yield f"{_CGROUPS}/memory/memory.limit_in_bytes"
    yield f"{_CGROUPS}/memory.max"
    try:
        with open("/proc/self/cgroup") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        number, _controllers, group = line.split(":", 2)
        if number != "0":
            continue
        while group.strip("/"):
            yield f"{_CGROUPS}{group}/memory.max"
            group = group.rpartition("/")[0]
