"""The expiry of certificates, as a TLS server shows them."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from kavka.console.alerts.probes import expiry_of
from support.certificates import Authority


@pytest.mark.parametrize("days", [20, -1])
def test_the_end_of_a_certificate_is_seen_whether_or_not_it_is_trusted(
    tmp_path: Path, days: int
) -> None:
    signed = Authority().sign(begin=-3, end=days)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.write_pem(tmp_path / "server.pem"))
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            # The other side leaves as soon as it has the certificate.
            with suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
                secured.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        found = expiry_of(f"127.0.0.1:{listening.getsockname()[1]}")
        thread.join()
    assert isinstance(found, float)
    assert found == pytest.approx(time.time() + days * 86_400, abs=7200)


def test_an_address_without_tls_says_why() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert "refused" in str(expiry_of(f"127.0.0.1:{closed.getsockname()[1]}"))
