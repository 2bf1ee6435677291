"""A port that serves a Prometheus page from a thread, for commands; a broker serves its own from its loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kavka.metrics.families import CONTENT_TYPE, Family, lines

_TIMEOUT_S = 10.0
"""Seconds without a byte after which a client no longer holds a thread."""


def page(families: Iterable[Family]) -> bytes:
    """Return families in Prometheus' text format."""
    return "".join(line for family in families for line in lines(family)).encode()


class MetricsServer:
    """Serves a page on a port, from a thread, until it is closed; also a context manager."""

    def __init__(
        self, port: int, families: Callable[[], Iterable[Family]], host: str = "127.0.0.1"
    ) -> None:
        """Listen; port 0 takes a free one. `families` is called at each scrape. Raise OSError for a port in use."""

        class Handler(BaseHTTPRequestHandler):
            """Answers a scrape."""

            timeout = _TIMEOUT_S

            def do_GET(self) -> None:
                """Answer with the page."""
                if self.path.partition("?")[0] not in ("/", "/metrics"):
                    self.send_error(404)
                    return
                body = page(families())
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Write no line for a scrape."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> MetricsServer:
        """Return the server."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the port."""
        self.close()
