"""A listener that asks clients for certificates names the authorities that it trusts."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from kavka.core.distinguished_names import encoded_subject
from kavka.net.tls.authority_names import CannotName, name_authorities, openssl, pointer_of
from kavka.net.tls.contexts import server_context
from kavka.net.tls.settings import TlsSettings, parse_settings
from support.certificates import Authority

AUTHORITY, OTHER = Authority(), Authority("Another authority")
BETWEEN = Authority("Between", AUTHORITY)
SERVER = AUTHORITY.sign()
NAMED = "trusted authorities are not named to clients"


def pem(*authorities: Authority) -> bytes:
    return b"".join(one.certificate.public_bytes(Encoding.PEM) for one in authorities)


def settings(directory: Path, client_auth: str, *trusted: Authority) -> TlsSettings:
    store = directory / "trusted.pem"
    store.write_bytes(pem(*trusted))
    given = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": SERVER.write_pem(directory / "key.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(store),
    }
    return parse_settings(given.get, client_auth)


def seen_by_openssl(context: ssl.SSLContext, *arguments: str) -> str:
    """Return what `openssl s_client` says of a handshake with a server."""
    program = shutil.which("openssl")
    assert program is not None
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _address = server.accept()
            with connection, context.wrap_socket(connection, server_side=True) as secured:
                secured.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        said = subprocess.run(
            [program, "s_client", "-connect", address, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        thread.join(30)
    return said.stdout


def names_in(said: str) -> set[str]:
    found = re.search(r"Acceptable client certificate CA names\n((?:.*CN = .*\n)+)", said)
    return (
        set()
        if found is None
        else {line.rpartition("CN = ")[2] for line in found[1].split("\n") if line}
    )


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_openssl_is_shown_each_trusted_authority_once(
    tmp_path: Path, version: str, client_auth: str, caplog: pytest.LogCaptureFixture
) -> None:
    trusted = (AUTHORITY, BETWEEN, OTHER, AUTHORITY)
    client = AUTHORITY.sign("client").write_pem(tmp_path / "client.pem")
    context = server_context(settings(tmp_path, client_auth, *trusted))
    said = seen_by_openssl(context, version, "-cert", client)
    assert names_in(said) == {"Test authority", "Between", "Another authority"}
    assert NAMED not in caplog.text


def test_nothing_is_named_where_no_certificate_is_asked_for(tmp_path: Path) -> None:
    context = server_context(settings(tmp_path, "none", AUTHORITY))
    assert "No client certificate CA names sent" in seen_by_openssl(context, "-tls1_3")


def test_settings_of_the_context_stay_as_they_were(tmp_path: Path) -> None:
    context = server_context(settings(tmp_path, "requested", AUTHORITY))
    assert context.verify_mode == ssl.CERT_OPTIONAL
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert not context.options & ssl.OP_NO_TICKET


@pytest.mark.parametrize("position", [0, 8, object.__basicsize__ + 8])
def test_another_layout_of_the_object_is_refused(position: int) -> None:
    """At these are the counter of references, the type, and text for ALPN, which is not set."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(CannotName, match="keeps OpenSSL's contexts in another way"):
        pointer_of(openssl(), context, position)


def test_the_context_of_another_object_is_refused() -> None:
    """Its options are not those that Python sets in this one."""
    context, other = (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for _ in range(2))
    with pytest.raises(CannotName, match="settings differ"):
        pointer_of(openssl(), context, id(other) - id(context) + object.__basicsize__)


def test_more_names_than_a_handshake_has_room_for_are_not_sent(tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(pem(AUTHORITY))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    subjects = [number.to_bytes(3, "big") * 30 for number in range(1000)]
    with pytest.raises(CannotName, match="take 92000 bytes"):
        name_authorities(context, str(trusted), subjects)


def test_a_subject_is_taken_as_it_stands() -> None:
    certificate = AUTHORITY.certificate.public_bytes(Encoding.DER)
    assert encoded_subject(certificate).whole == AUTHORITY.certificate.subject.public_bytes()


def test_where_it_cannot_be_done_the_listener_serves_without_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    openssl.cache_clear()
    monkeypatch.setattr("platform.python_implementation", lambda: "PyPy")
    try:
        context = server_context(settings(tmp_path, "requested", AUTHORITY))
    finally:
        openssl.cache_clear()
    assert f"{NAMED} reason=PyPy lays objects out in another way than CPython" in caplog.text
    assert "No client certificate CA names sent" in seen_by_openssl(context, "-tls1_2")
