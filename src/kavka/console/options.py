"""The options of a console: the cluster, the address to listen on, and its bounds. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

DEFAULT_PORT = 8080
DEFAULT_HOST = "127.0.0.1"


class NotLoopback(ValueError):
    """The address can be reached from other machines, and the console has no login."""


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """The cluster that one console shows, and the bounds of its questions."""

    bootstrap_servers: str
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of clients, as in a file for `--command-config`."""
    registry: Mapping[str, str] = field(default_factory=dict)
    """Settings of the schema registry; without its `url` there is none."""
    timeout_ms: int = 8_000
    """Bound on one page: a cluster that takes longer gives an error page."""
    most_calls: int = 16
    """Calls of the admin client in progress; others wait."""
    most_readers: int = 12
    """Consumers that read messages or follow a topic; one more is refused."""
    sample_interval_ms: int = 5_000
    """Time between two looks at the ends of all partitions, for rates; 0 looks never."""


def checked_host(host: str) -> str:
    """Return an address of this machine's loopback. Raise NotLoopback for all others.

    Names other than `localhost` are refused, since what they stand for may change.
    """
    if host == "localhost":
        return DEFAULT_HOST
    try:
        if ipaddress.ip_address(host.strip("[]")).is_loopback:
            return host.strip("[]")
    except ValueError:
        pass
    raise NotLoopback(
        f"--host {host}: the console has no login yet, so it listens on this machine's loopback only (127.0.0.1, ::1, "
        "localhost). To use it from another machine, forward the port over SSH: "
        f"ssh -L {DEFAULT_PORT}:127.0.0.1:{DEFAULT_PORT} <this machine>"
    )


def is_loopback_name(authority: str) -> bool:
    """Return whether the Host header of a request names this machine's loopback, with or without a port.

    A page of another site whose name was made to point here (DNS rebinding) sends its own name.
    """
    host = authority
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
