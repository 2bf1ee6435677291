"""ZooKeeper's four-letter words: what an operator asks a server with a bare socket.

Only those of the white list are answered. Source: ZooKeeper administrator's guide, "The Four Letter Words".
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from kavka import __version__
from kavka.registry.conversation import Conversation

if TYPE_CHECKING:
    from kavka.registry.served import ServedRegistry

_VERSION = f"3.9.3-kavka-{__version__}"
_BUILT = "built on -"


def answer_word(letters: bytes, served: ServedRegistry) -> bytes | None:
    """Return what a four-letter word is answered, None when there is no such word."""
    word = letters.decode("latin-1")
    write = _WORDS.get(word)
    if write is None:
        return None
    allowed = served.config.words
    if word not in allowed and "*" not in allowed:
        return f"{word} is not executed because it is not in the whitelist.\n".encode()
    return write(served).encode()


def _ruok(_served: ServedRegistry) -> str:
    return "imok"


def _isro(_served: ServedRegistry) -> str:
    return "rw"


def _srvr(served: ServedRegistry) -> str:
    traffic = served.traffic
    rows = [
        f"Zookeeper version: {_VERSION}, {_BUILT}",
        f"Latency min/avg/max: {traffic.least_ms}/{traffic.mean_ms:.4f}/{traffic.longest_ms}",
        f"Received: {traffic.received}",
        f"Sent: {traffic.sent}",
        f"Connections: {len(served.connections)}",
        f"Outstanding: {_outstanding(served)}",
        f"Zxid: 0x{served.keeper.tree.zxid:x}",
        "Mode: standalone",
        f"Node count: {len(served.keeper.tree)}",
    ]
    return _lines(rows)


def _stat(served: ServedRegistry) -> str:
    head, *rest = _srvr(served).splitlines()
    clients = [
        f" /{connection.address}[1]{_counts(connection.conversation)}"
        for connection in served.connections
    ]
    return _lines([head, "Clients:", *clients, "", *rest])


def _cons(served: ServedRegistry) -> str:
    return _lines(
        [f" /{one.address}[1]{_counts(one.conversation, True)}" for one in served.connections]
    )


def _counts(conversation: Conversation | None, with_session: bool = False) -> str:
    if conversation is None:
        return "(queued=0,recved=1,sent=0)"
    traffic = conversation.traffic
    counts = f"queued={conversation.in_flight},recved={traffic.received},sent={traffic.sent}"
    if with_session:
        seat = conversation.seat
        counts += f",sid=0x{seat.session_id:x},to={seat.timeout_ms}"
    return f"({counts})"


def _mntr(served: ServedRegistry) -> str:
    tree, traffic = served.keeper.tree, served.traffic
    facts = {
        "version": f"{_VERSION}, {_BUILT}",
        "server_state": "standalone",
        "packets_received": traffic.received,
        "packets_sent": traffic.sent,
        "min_latency": traffic.least_ms,
        "avg_latency": f"{traffic.mean_ms:.4f}",
        "max_latency": traffic.longest_ms,
        "num_alive_connections": len(served.connections),
        "outstanding_requests": _outstanding(served),
        "znode_count": len(tree),
        "watch_count": len(served.keeper.watches),
        "ephemerals_count": sum(len(tree.ephemerals(owner)) for owner in tree.sessions()),
        "global_sessions": len(served.keeper.seats()),
        "approximate_data_size": sum(
            len(path) + stat.data_length for path, _data, stat in tree.dump()
        ),
    }
    return _lines([f"zk_{name}\t{value}" for name, value in facts.items()])


def _conf(served: ServedRegistry) -> str:
    config = served.config
    facts = {
        "clientPort": served.port,
        "secureClientPort": -1,
        "dataDir": config.data_directory,
        "tickTime": config.tick_ms,
        "maxClientCnxns": config.most_connections,
        "minSessionTimeout": config.least_timeout_ms,
        "maxSessionTimeout": config.most_timeout_ms,
        "serverId": 0,
    }
    return _lines([f"{name}={value}" for name, value in facts.items()])


def _envi(_served: ServedRegistry) -> str:
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


def _dump(served: ServedRegistry) -> str:
    """Return the sessions by the end of their time-outs, and what dies with each."""
    keeper = served.keeper
    now_ms = keeper.clock.tick_ms()
    rows = ["SessionTracker dump:", f"Session Sets ({len(keeper.seats())}):"]
    for seat in keeper.seats():
        left_ms = 0 if seat.deadline_ms is None else seat.deadline_ms - now_ms
        rows += [f"1 expire in {left_ms} ms:", f"\t0x{seat.session_id:x}"]
    owners = keeper.tree.sessions()
    rows += ["ephemeral nodes dump:", f"Sessions with Ephemerals ({len(owners)}):"]
    for owner in owners:
        rows += [f"0x{owner:x}:", *(f"\t{path}" for path in keeper.tree.ephemerals(owner))]
    return _lines(rows)


def _wchs(served: ServedRegistry) -> str:
    found = list(served.keeper.watches.listing())
    watchers = {id(watcher) for _kind, _path, watcher in found}
    paths = {path for _kind, path, _watcher in found}
    return f"{len(watchers)} connections watching {len(paths)} paths\nTotal watches:{len(found)}\n"


def _outstanding(served: ServedRegistry) -> int:
    return sum(one.conversation.in_flight for one in served.connections if one.conversation)


def _lines(rows: list[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


_WORDS: dict[str, Callable[[ServedRegistry], str]] = {
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
