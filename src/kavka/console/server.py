"""Serves the console over HTTP, on this machine's loopback."""

from __future__ import annotations

import socket

import uvicorn

from kavka.console.application import create_application
from kavka.console.options import ConsoleOptions, checked_host

_GRACE_S = 2


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket of the loopback. Raise NotLoopback, and OSError where the port is in use."""
    address = checked_host(host)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        made.listen(128)
    except BaseException:
        made.close()
        raise
    return made


def address_of(listening: socket.socket) -> str:
    """Return the address for a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve(options: ConsoleOptions, listening: socket.socket) -> None:
    """Serve until Ctrl-C or SIGTERM; pages that follow a topic are ended after two seconds."""
    config = uvicorn.Config(
        create_application(options),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=_GRACE_S,
        limit_concurrency=200,
    )
    uvicorn.Server(config).run(sockets=[listening])
