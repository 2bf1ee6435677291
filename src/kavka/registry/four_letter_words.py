"""ZooKeeper's four-letter words: what an operator asks a server with a bare socket.

Only those of the white list are answered. Source: ZooKeeper administrator's guide, "The Four Letter Words".
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Collection
from typing import Protocol

from kavka import __version__
from kavka.registry.client_connection import ClientConnection
from kavka.registry.registry_server_config import RegistryServerConfig
from kavka.registry.request_processor import ClientStatistics, RequestProcessor
from kavka.registry.znode_server import ZnodeServer

_VERSION = f"3.9.3-kavka-{__version__}"
_BUILT = "built on -"


class ServerStatus(Protocol):
    """The state of a registry server that the words report."""

    @property
    def znode_server(self) -> ZnodeServer:
        """Return the served tree."""
        ...

    @property
    def config(self) -> RegistryServerConfig:
        """Return the server's settings."""
        ...

    @property
    def connections(self) -> Collection[ClientConnection]:
        """Return the open connections."""
        ...

    @property
    def traffic(self) -> ClientStatistics:
        """Return the counters of all clients."""
        ...

    @property
    def port(self) -> int:
        """Return the port that the server listens on."""
        ...


def reply_to_four_letter_word(letters: bytes, server: ServerStatus) -> bytes | None:
    """Return what a four-letter word is answered, None when there is no such word."""
    word = letters.decode("latin-1")
    write = _WORDS.get(word)
    if write is None:
        return None
    allowed = server.config.allowed_words
    if word not in allowed and "*" not in allowed:
        return f"{word} is not executed because it is not in the whitelist.\n".encode()
    return write(server).encode()


def _ruok(_served: ServerStatus) -> str:
    return "imok"


def _isro(_served: ServerStatus) -> str:
    return "rw"


def _srvr(server: ServerStatus) -> str:
    traffic = server.traffic
    rows = [
        f"Zookeeper version: {_VERSION}, {_BUILT}",
        f"Latency min/avg/max: {traffic.min_latency_ms}/{traffic.average_latency_ms:.4f}/{traffic.max_latency_ms}",
        f"Received: {traffic.received}",
        f"Sent: {traffic.sent}",
        f"Connections: {len(server.connections)}",
        f"Outstanding: {_outstanding(server)}",
        f"Zxid: 0x{server.znode_server.tree.zxid:x}",
        "Mode: standalone",
        f"Node count: {len(server.znode_server.tree)}",
    ]
    return _lines(rows)


def _stat(server: ServerStatus) -> str:
    head, *rest = _srvr(server).splitlines()
    clients = [
        f" /{connection.address}[1]{_counts(connection.processor)}"
        for connection in server.connections
    ]
    return _lines([head, "Clients:", *clients, "", *rest])


def _cons(server: ServerStatus) -> str:
    return _lines(
        [f" /{one.address}[1]{_counts(one.processor, True)}" for one in server.connections]
    )


def _counts(processor: RequestProcessor | None, with_session: bool = False) -> str:
    if processor is None:
        return "(queued=0,recved=1,sent=0)"
    traffic = processor.statistics
    counts = f"queued={processor.in_flight},recved={traffic.received},sent={traffic.sent}"
    if with_session:
        session = processor.session
        counts += f",sid=0x{session.session_id:x},to={session.timeout_ms}"
    return f"({counts})"


def _mntr(server: ServerStatus) -> str:
    tree, traffic = server.znode_server.tree, server.traffic
    facts = {
        "version": f"{_VERSION}, {_BUILT}",
        "server_state": "standalone",
        "packets_received": traffic.received,
        "packets_sent": traffic.sent,
        "min_latency": traffic.min_latency_ms,
        "avg_latency": f"{traffic.average_latency_ms:.4f}",
        "max_latency": traffic.max_latency_ms,
        "num_alive_connections": len(server.connections),
        "outstanding_requests": _outstanding(server),
        "znode_count": len(tree),
        "watch_count": len(server.znode_server.watches),
        "ephemerals_count": sum(len(tree.ephemerals(owner)) for owner in tree.sessions()),
        "global_sessions": len(server.znode_server.sessions()),
        "approximate_data_size": sum(
            len(node.path) + node.stat.data_length for node in tree.dump()
        ),
    }
    return _lines([f"zk_{name}\t{value}" for name, value in facts.items()])


def _conf(server: ServerStatus) -> str:
    config = server.config
    facts = {
        "clientPort": server.port,
        "secureClientPort": -1,
        "dataDir": config.data_directory,
        "tickTime": config.tick_ms,
        "maxClientCnxns": config.max_client_connections,
        "minSessionTimeout": config.min_session_timeout_ms,
        "maxSessionTimeout": config.max_session_timeout_ms,
        "serverId": 0,
    }
    return _lines([f"{name}={value}" for name, value in facts.items()])


def _envi(_served: ServerStatus) -> str:
    facts = {
        "zookeeper.version": f"{_VERSION}, {_BUILT}",
        "host.name": platform.node(),
        "python.version": platform.python_version(),
        "python.executable": sys.executable,
        "os.name": platform.system(),
        "os.arch": platform.machine(),
        "os.version": platform.release(),
        "user.dir": os.getcwd(),
    }
    return _lines(["Environment:", *(f"{name}={value}" for name, value in facts.items())])


def _dump(server: ServerStatus) -> str:
    """Return the sessions by the end of their timeouts, and what dies with each."""
    znode_server = server.znode_server
    now_ms = znode_server.clock.tick_ms()
    rows = ["SessionTracker dump:", f"Session Sets ({len(znode_server.sessions())}):"]
    for session in znode_server.sessions():
        left_ms = 0 if session.deadline_ms is None else session.deadline_ms - now_ms
        rows += [f"1 expire in {left_ms} ms:", f"\t0x{session.session_id:x}"]
    owners = znode_server.tree.sessions()
    rows += ["ephemeral nodes dump:", f"Sessions with Ephemerals ({len(owners)}):"]
    for owner in owners:
        rows += [f"0x{owner:x}:", *(f"\t{path}" for path in znode_server.tree.ephemerals(owner))]
    return _lines(rows)


def _wchs(server: ServerStatus) -> str:
    found = list(server.znode_server.watches.listing())
    watchers = {id(watcher) for _kind, _path, watcher in found}
    paths = {path for _kind, path, _watcher in found}
    return f"{len(watchers)} connections watching {len(paths)} paths\nTotal watches:{len(found)}\n"


def _outstanding(server: ServerStatus) -> int:
    return sum(one.processor.in_flight for one in server.connections if one.processor)


def _lines(rows: list[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


_WORDS: dict[str, Callable[[ServerStatus], str]] = {
    "ruok": _ruok,
    "isro": _isro,
    "srvr": _srvr,
    "stat": _stat,
    "cons": _cons,
    "mntr": _mntr,
    "conf": _conf,
    "envi": _envi,
    "dump": _dump,
    "wchs": _wchs,
}
