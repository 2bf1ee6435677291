"""The real I/O of one machine: clock, random, disk and network."""

from __future__ import annotations

from collections.abc import Mapping

from kavka.net.clock import SystemClock, SystemRandom
from kavka.net.listener import SocketOptions
from kavka.net.memory import memory_bytes
from kavka.net.network import TcpNetwork
from kavka.settings.broker import BROKER_SETTINGS
from kavka.storage.disk.os_disk import OsDisk


class OsEnvironment:
    """Implements `io.Environment` with the operating system."""

    def __init__(self, *, io_threads: int = 4, sockets: SocketOptions | None = None) -> None:
        """`io_threads` run blocking system calls; `sockets` are the options of accepted connections."""
        self.clock = SystemClock()
        self.random = SystemRandom()
        self.disk = OsDisk(io_threads)
        self.network = TcpNetwork(sockets)
        self.memory_bytes = memory_bytes()

    @classmethod
    def for_settings(cls, settings: Mapping[str, str]) -> OsEnvironment:
        """Return the environment for a broker's settings. Raise InvalidSetting."""

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
