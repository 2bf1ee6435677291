"""Serves the console: HTTP on this machine's loopback, HTTPS or HTTP behind a proxy for others."""

from __future__ import annotations

import socket

import uvicorn

from kavka.console.access.exposure import checked_exposure
from kavka.console.access.slow_clients import ImpatientProtocol
from kavka.console.application import create_application
from kavka.console.options import ConsoleOptions

_GRACE_S = 2


def listen(host: str, port: int, options: ConsoleOptions | None = None) -> socket.socket:
    """Return a listening socket. Raise NotLoopback where others could connect to a console without login or TLS.

    Raise ValueError for wrong options of the way in, and OSError where the port is in use.
    """
    options = options or ConsoleOptions("")
    address = checked_exposure(host, options.exposure, has_login=options.access.has_login)
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


def address_of(listening: socket.socket, options: ConsoleOptions | None = None) -> str:
    """Return the address for a browser."""
    exposure = options.exposure if options else None
    if exposure is not None and exposure.public_url:
        return exposure.origin
    scheme = "https" if exposure is not None and exposure.certificate else "http"
    host, port = listening.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def serve(options: ConsoleOptions, listening: socket.socket) -> None:
    """Serve until Ctrl-C or SIGTERM; pages that follow a topic are ended after two seconds."""
    exposure = options.exposure
    config = uvicorn.Config(
        create_application(options),
        http=ImpatientProtocol,
        ws="none",
        ssl_certfile=exposure.certificate or None,
        ssl_keyfile=exposure.key or None,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=_GRACE_S,
        limit_concurrency=200,
    )
    uvicorn.Server(config).run(sockets=[listening])
