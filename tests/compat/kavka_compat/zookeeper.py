"""Apache ZooKeeper as an ensemble of real processes."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kavka_compat.apache import SMALL
from kavka_compat.artifacts import ZOOKEEPER, jars, java
from kavka_compat.processes import Running, free_port

RELEASES = {"3.8": "3.9", "3.9": ZOOKEEPER}
"""Name of the cached jars that hold a release of ZooKeeper, by release."""
TICK_MS = 500
"""The shortest session is two ticks."""


class Ensemble:
    """Members that elect a leader among themselves; each can be killed and started again."""

    def __init__(
        self,
        directory: Path,
        release: str,
        members: int,
        hosts: Sequence[str] = (),
        within: Sequence[Sequence[str]] = (),
        more: Mapping[str, object] | None = None,
        options: Sequence[str] = (),
        tls: Mapping[str, str] | None = None,
    ) -> None:
        """Write the configurations; `start` begins. `more` are settings, `options` are Java's.

        `hosts` are the members' addresses, and `within` goes in front of their commands, where they have machines.
        With `tls`, the settings `ssl.*` of ZooKeeper, clients reach them by TLS only, through Netty.
        """
        self._class_path = ":".join(map(str, jars(RELEASES[release])))
        self._directories = [directory / f"zookeeper-{number}" for number in range(members)]
        self.hosts = list(hosts) or ["127.0.0.1"] * members
        self._options = list(options)
        self._within = list(within) or [()] * members
        self.ports = [free_port() for _ in range(members)]
        servers = {
            f"server.{number}": f"{host}:{free_port()}:{free_port()}"
            for number, host in enumerate(self.hosts, 1)
        }
        for number, home in enumerate(self._directories):
            home.mkdir(parents=True)
            (home / "myid").write_text(str(number + 1))
            configured = {
                "tickTime": TICK_MS,
                "initLimit": 20,
                "syncLimit": 10,
                "dataDir": home,
                **self._client_port(number, tls),
                "admin.enableServer": "false",
                "maxClientCnxns": 0,
                "maxSessionTimeout": 60_000,
                "4lw.commands.whitelist": "*",
                **(servers if members > 1 else {}),
                **(more or {}),
            }
            lines = [f"{name}={value}\n" for name, value in configured.items()]
            (home / "zoo.cfg").write_text("".join(lines))
        self._running: dict[int, Running] = {}

    def _client_port(self, number: int, tls: Mapping[str, str] | None) -> dict[str, object]:
        port, host = self.ports[number], self.hosts[number]
        if tls is None:
            return {"clientPort": port, "clientPortAddress": host}
        factory = "org.apache.zookeeper.server.NettyServerCnxnFactory"
        secure = {"secureClientPort": port, "secureClientPortAddress": host}
        return {**secure, "serverCnxnFactory": factory, **tls}

    @property
    def connect(self) -> str:
        """The value for `zookeeper.connect`."""
        return ",".join(f"{host}:{port}" for host, port in zip(self.hosts, self.ports, strict=True))

    def start(self, number: int) -> None:
        """Start a member; it serves as soon as there is a quorum."""
        home = self._directories[number]
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        logging = f"-Dlog4j.configuration={_log_file(home).as_uri()}"
        java_command = [java(), *SMALL, *self._options, logging, "-cp", self._class_path, main]
        command = [*self._within[number], *java_command, str(home / "zoo.cfg")]
        self._running[number] = Running(command, home / f"{len(list(home.glob('*.out')))}.out")

    def wait_for(self, number: int, seconds: float = 90) -> None:
        """Return when a member accepts connections. Raise ProcessDied when it ends, or takes too long."""
        self._running[number].wait_until(lambda: self._accepts(number), "open port", seconds)

    def wait_until_in_quorum(self, number: int, seconds: float = 90) -> None:
        """Return when a member follows or leads, as its response to `srvr` says. Raise ProcessDied as `wait_for`."""
        member = self._running[number]
        member.wait_until(lambda: b"Mode: " in self._srvr(number), "quorum", seconds)

    def _accepts(self, number: int) -> bool:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.connect((self.hosts[number], self.ports[number]))
            return True
        return False

    def _srvr(self, number: int) -> bytes:
        with contextlib.suppress(OSError), socket.socket() as asking:
            asking.settimeout(5)
            asking.connect((self.hosts[number], self.ports[number]))
            asking.sendall(b"srvr")
            return b"".join(iter(lambda: asking.recv(4096), b""))
        return b""

    def kill(self, number: int) -> None:
        """Kill a member."""
        self._running.pop(number).kill()

    def process(self, number: int) -> Running:
        """Return a member's process."""
        return self._running[number]

    def stop(self) -> None:
        """End all members."""
        for number in list(self._running):
            self.kill(number)


@contextmanager
def run_ensemble(
    directory: Path,
    *,
    release: str = "3.8",
    members: int = 1,
    settings: Mapping[str, object] | None = None,
    options: Sequence[str] = (),
    tls: Mapping[str, str] | None = None,
) -> Iterator[Ensemble]:
    """Run an ensemble whose members listen; it may still be electing its leader."""
    ensemble = Ensemble(directory, release, members, tls=tls, more=settings, options=options)
    try:
        for number in range(members):
            ensemble.start(number)
        for number in range(members):
            ensemble.wait_for(number)
        yield ensemble
    finally:
        ensemble.stop()


def _log_file(home: Path) -> Path:
    path = home / "log4j.properties"
    path.write_text(
        "log4j.rootLogger=WARN, console\n"
        "log4j.appender.console=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.console.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
    )
    return path
