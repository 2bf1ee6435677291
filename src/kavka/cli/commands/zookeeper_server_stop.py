"""`kavka zookeeper-server-stop`: stop the registry servers of this machine that this user started, cleanly."""

from __future__ import annotations

from kavka.cli.server.signals import stop_servers


def main(arguments: list[str]) -> int:
    """Send SIGTERM to every `kavka zookeeper-server-start` process; 1 when there is none."""
    return stop_servers(arguments, command="zookeeper-server-start", server="zookeeper")
