"""Key and trust stores of each type are read, and what is wrong with one is said."""

from __future__ import annotations

import asyncio
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from kavka.core.distinguished_names import alternative_names_of, subject_of
from kavka.net.clock import SystemClock
from kavka.net.tls.ciphers import openssl_name
from kavka.net.tls.contexts import ReloadableContext, client_context, server_context
from kavka.net.tls.own_handshake import own_handshake_fault
from kavka.net.tls.settings import InvalidStore, Store, TlsSettings, parse_settings
from kavka.net.tls.stores import read_key_store, read_trust_store
from kavka.settings.declaration import InvalidSetting
from kavka.values import replace
from support.certificates import PASSWORD, Authority, Signed

JAVAS = Path(__file__).parent / "java_key_and_trust.p12"
AUTHORITY = Authority()
OTHER = Authority("Another authority")
BETWEEN = Authority("Between", AUTHORITY)
OWNER = BETWEEN.sign("owner")


def tls(**texts: Any) -> TlsSettings:
    """Return settings; names are without `ssl.`, with `__` for dots."""
    given = {f"ssl.{name.replace('__', '.')}": value for name, value in texts.items()}
    return parse_settings(given.get)


def key_store(kind: str, path: Path) -> TlsSettings:
    match kind:
        case "PEM":
            location = OWNER.write_pem(path)
        case "encrypted PEM":
            location = OWNER.write_pem(path, PASSWORD)
            return tls(keystore__type="PEM", keystore__location=location, key__password=PASSWORD)
        case "inline":
            return tls(
                keystore__type="PEM",
                keystore__key=OWNER.key_pem(PASSWORD).decode(),
                keystore__certificate__chain=OWNER.chain_pem.decode(),
                key__password=PASSWORD,
            )
        case "PKCS12":
            location = OWNER.write_pkcs12(path)
        case _:
            location = OWNER.write_jks(path)
    kind = "JKS" if kind == "JKS" else kind
    return tls(keystore__type=kind, keystore__location=location, keystore__password=PASSWORD)


@pytest.mark.parametrize("kind", ["PEM", "encrypted PEM", "inline", "PKCS12", "JKS"])
def test_a_key_store_of_each_type_serves(tmp_path: Path, kind: str) -> None:
    settings = key_store(kind, tmp_path / "store")
    material = read_key_store(settings)
    assert material is not None
    assert material.certificates.count(b"BEGIN CERTIFICATE") == 2
    assert material.certificates.split() == OWNER.chain_pem.split()
    server_context(settings)


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", "JKS"])
def test_a_trust_store_of_each_type_is_trusted(tmp_path: Path, kind: str) -> None:
    writers = {
        "PEM": AUTHORITY.write_pem,
        "PKCS12": AUTHORITY.write_pkcs12,
        "JKS": AUTHORITY.write_jks,
    }
    location = writers[kind](tmp_path / "store")
    settings = tls(
        truststore__type=kind, truststore__location=location, truststore__password=PASSWORD
    )
    context = client_context(settings)
    trusted = AUTHORITY.certificate.public_bytes(Encoding.DER)
    assert context.get_ca_certs(binary_form=True) == [trusted]


def test_a_file_of_type_jks_may_be_pkcs12_as_in_java(tmp_path: Path) -> None:
    location = OWNER.write_pkcs12(tmp_path / "store")
    assert read_key_store(tls(keystore__location=location, keystore__password=PASSWORD)) is not None


def test_a_key_that_every_user_may_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store"
    settings = tls(keystore__type="PEM", keystore__location=OWNER.write_pem(path))
    for mode, warnings in ((0o600, 0), (0o640, 0), (0o644, 1)):
        path.chmod(mode)
        ReloadableContext(replace(settings, allows_dn_changes=False), server_context, "INSIDE")
        assert caplog.messages == [f"private key readable by every user file={path}"] * warnings


def test_a_trust_store_of_jks_needs_no_password(tmp_path: Path) -> None:
    location = AUTHORITY.write_jks(tmp_path / "store")
    assert read_trust_store(tls(truststore__location=location).trust_store)


def test_the_key_of_jks_may_have_a_password_of_its_own(tmp_path: Path) -> None:
    location = OWNER.write_jks(tmp_path / "store", key_password="other")
    given = {"keystore__location": location, "keystore__password": PASSWORD}
    server_context(tls(**given, key__password="other"))
    with pytest.raises(InvalidSetting, match="password of the private key is wrong"):
        server_context(tls(**given))


def _wrong(path: Path) -> list[tuple[dict[str, Any], str]]:
    pem, encrypted = OWNER.write_pem(path / "a.pem"), OWNER.write_pem(path / "b.pem", PASSWORD)
    p12, jks = OWNER.write_pkcs12(path / "c.p12"), OWNER.write_jks(path / "d.jks")
    mixed = path / "e.pem"
    mixed.write_bytes(OTHER.sign("x").key_pem() + OWNER.chain_pem)
    (path / "f").write_bytes(b"\xce\xce\xce\xce")
    (path / "g").write_bytes(OWNER.chain_pem)
    (path / "h").write_bytes(OWNER.key_pem())
    (path / "i").write_bytes(b"nothing")
    damaged = path / "j"
    damaged.write_bytes(Path(jks).read_bytes().replace(b"owner", b"owneR"))
    at = {"keystore__type": "PEM"}
    return [
        ({"keystore__location": str(path / "none")}, "No such file"),
        ({"keystore__location": str(path)}, "Is a directory"),
        ({"keystore__location": pem}, "the file is PEM: set ssl.keystore.type=PEM"),
        ({"keystore__location": p12, **at}, "the file is not PEM"),
        ({"keystore__location": encrypted, **at}, "set ssl.key.password"),
        ({"keystore__location": encrypted, "key__password": "x", **at}, "ssl.key.password. is wrong"),
        ({"keystore__location": p12, "keystore__password": "x"}, "ssl.keystore.password. is wrong"),
        ({"keystore__location": jks, "keystore__password": "x"}, "the password is wrong"),
        ({"keystore__location": jks}, "set ssl.keystore.password"),
        ({"keystore__location": str(damaged), "keystore__password": PASSWORD}, "damaged"),
        ({"keystore__location": str(mixed), **at}, "not that of the certificate"),
        ({"keystore__location": str(path / "f")}, "JCEKS"),
        ({"keystore__location": str(path / "g"), **at}, "no private key"),
        ({"keystore__location": str(path / "h"), **at}, "no certificate"),
        ({"keystore__location": str(path / "i")}, "neither JKS nor PKCS12"),
        ({"keystore__type": "BKS"}, "Expected one of JKS, PKCS12, PEM"),
        ({"keystore__key": "x"}, "ssl.keystore.key is missing, or is not PEM"),
        ({}, "Invalid value  for configuration ssl.keystore.location: a listener .* needs a key store"),
        ({"keystore__location": pem, **at, "enabled__protocols": ["TLSv1"]}, "TLSv1 is not secure"),
        ({"keystore__location": pem, **at, "enabled__protocols": ["TLS9"]}, "Expected TLSv1.2"),
        ({"keystore__location": pem, **at, "cipher__suites": ["TLS_NO"]}, "OpenSSL"),
        ({"keystore__location": pem, **at, "cipher__suites": ["TLS_AES_128_GCM_SHA256"]}, "1.3"),
        ({"endpoint__identification__algorithm": "ftp"}, "Expected https"),
    ]  # fmt: skip


def test_what_is_wrong_with_a_store_is_said(tmp_path: Path) -> None:
    for given, reason in _wrong(tmp_path):
        with pytest.raises(InvalidSetting, match=reason) as refused:
            server_context(tls(**given))
        assert PASSWORD not in str(refused.value)
        assert "PRIVATE KEY" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----"])
def test_a_trust_store_without_a_certificate_is_refused(text: str) -> None:
    settings = tls(truststore__type="PEM", truststore__certificates=text or "nothing")
    with pytest.raises(
        InvalidSetting, match=r"ssl.truststore.certificates: .*(no trusted|damaged)"
    ):
        client_context(settings)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("HIGH", "HIGH"),
    ],
)
def test_suites_have_openssls_names(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(openssl)


def test_only_the_suites_that_are_named_are_offered(tmp_path: Path) -> None:
    suites = ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]
    context = client_context(tls(cipher__suites=suites))
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    older = [one["name"] for one in context.get_ciphers() if one["protocol"] != "TLSv1.3"]
    assert older == ["ECDHE-ECDSA-AES128-GCM-SHA256"]


def test_a_listener_offers_authenticated_encryption_with_forward_secrecy_only(
    tmp_path: Path,
) -> None:
    offered = server_context(key_store("PEM", tmp_path / "owner.pem")).get_ciphers()
    assert {one["aead"] for one in offered} == {True}
    assert not [
        one["name"] for one in offered if one["kea"] not in ("kx-ecdhe", "kx-dhe", "kx-any")
    ]
    assert {one["protocol"] for one in offered} == {"TLSv1.2", "TLSv1.3"}


def test_a_context_is_reloaded_from_its_files_and_keeps_the_one_before_a_broken_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store"
    OWNER.write_pem(path)
    settings = tls(keystore__type="PEM", keystore__location=str(path))
    reloadable = ReloadableContext(settings, server_context, "INSIDE")
    first = reloadable.current
    asyncio.run(reloadable.refresh())
    assert reloadable.current is first
    path.write_bytes(b"-----BEGIN ")
    asyncio.run(reloadable.refresh())
    asyncio.run(reloadable.refresh())
    assert reloadable.current is first
    path.unlink()
    asyncio.run(reloadable.refresh())
    assert reloadable.current is first
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    BETWEEN.sign("new").write_pem(path)
    asyncio.run(reloadable.refresh())
    assert reloadable.current is not first


class TurnedClock(SystemClock):
    ms = 0

    def now_ms(self) -> int:
        return self.ms


def test_the_log_says_once_that_a_certificate_is_not_yet_valid_ends_soon_and_has_expired(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    location = OWNER.write_pem(tmp_path / "store")
    begin, end = OWNER.chain[0].not_valid_before_utc, OWNER.chain[0].not_valid_after_utc
    clock = TurnedClock()
    clock.ms = int(begin.timestamp() * 1000) - 1
    settings = tls(keystore__type="PEM", keystore__location=location)
    reloadable = ReloadableContext(settings, server_context, "INSIDE", clock)
    clock.ms += 1
    asyncio.run(reloadable.refresh())
    for days in (8, 6, 5, -1, -2):
        clock.ms = int((end - timedelta(days=days)).timestamp() * 1000)
        asyncio.run(reloadable.refresh())
    first, last = (f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in (begin, end))
    assert caplog.messages == [
        f"certificate is not yet valid begin={first} name=INSIDE",
        f"certificate expires soon end={last} name=INSIDE",
        f"certificate has expired end={last} name=INSIDE",
    ]


def test_of_two_changes_at_once_the_last_one_counts(tmp_path: Path) -> None:
    OWNER.write_pem(tmp_path / "store")
    BETWEEN.sign("new").write_pem(tmp_path / "other")
    first, last, missing = (
        tls(keystore__type="PEM", keystore__location=str(tmp_path / name))
        for name in ("store", "other", "nowhere")
    )
    for wrong in (missing, first):
        reloadable = ReloadableContext(first, server_context, "INSIDE")

        async def change(reloadable: ReloadableContext = reloadable, wrong: Any = wrong) -> None:
            await asyncio.gather(reloadable.configure(wrong), reloadable.configure(last))

        asyncio.run(change())
        assert reloadable.settings is last
        assert reloadable.wanted is last


def test_no_private_key_touches_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    load = ssl.SSLContext.load_cert_chain

    def note(self: ssl.SSLContext, certfile: Any, keyfile: Any, password: Any) -> None:
        loaded.extend((certfile, keyfile))
        load(self, certfile, keyfile, password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", note)
    server_context(key_store("PKCS12", tmp_path / "store"))
    assert all(path.startswith("/proc/self/fd/") for path in loaded)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_no_secret_is_in_the_text_of_settings(tmp_path: Path) -> None:
    settings = tls(
        keystore__type="PEM",
        keystore__key="my key",
        keystore__certificate__chain="my chain",
        keystore__password="my store",
        key__password="my password",
        truststore__password="my trust",
    )
    assert "my " not in repr(settings)
    assert "PRIVATE" not in repr(read_key_store(key_store("PEM", tmp_path / "key.pem")))


@pytest.mark.parametrize(("algorithm", "is_checked"), [(None, True), ("HTTPS", True), ("", False)])
def test_the_host_is_checked_unless_a_setting_says_that_it_is_not(
    algorithm: str | None, is_checked: bool
) -> None:
    settings = tls(endpoint__identification__algorithm=algorithm)
    assert client_context(settings).check_hostname is is_checked


def test_a_pkcs12_trust_store_has_the_certificate_entries_and_not_the_chain_of_a_key() -> None:
    """The file is keytool's: a key with its chain CN=broker, CN=Inter, CN=Root; entries CN=Other and CN=Root."""
    store = Store("ssl.truststore", "PKCS12", str(JAVAS), "changeit")
    read = read_trust_store(store)
    assert read is not None
    found = [subject_of(ssl.PEM_cert_to_DER_cert(text)) for text in pem_blocks(read)]
    assert sorted(found) == ["CN=Other", "CN=Root"]


def test_alternative_names_are_those_of_the_extension() -> None:
    def names(*hosts: str) -> frozenset[bytes]:
        signed = Authority().sign("one", hosts=hosts)
        return alternative_names_of(signed.chain[0].public_bytes(Encoding.DER))

    assert names("a.example", "127.0.0.1") == {b"\x82\x09a.example", b"\x87\x04\x7f\0\0\x01"}
    assert names() == frozenset()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("auth", ["none", "required"])
def test_a_handshake_with_itself_says_what_keeps_brokers_apart(
    tmp_path: Path, version: str, auth: str
) -> None:
    def fault(signed: Signed) -> str | None:
        own = signed.write_pem(tmp_path / "own")
        trust = AUTHORITY.write_pem(tmp_path / "trust")
        texts = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": own,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": trust,
            "ssl.enabled.protocols": [version],
        }
        return own_handshake_fault(parse_settings(texts.get, auth))

    assert fault(AUTHORITY.sign("broker", hosts=("elsewhere",))) is None
    assert "is its issuer in ssl.truststore.location?" in (fault(Authority().sign("broker")) or "")
    assert "certificate has expired" in (fault(AUTHORITY.sign("broker", begin=-9, end=-1)) or "")


def test_a_pkcs12_file_with_a_key_alone_is_no_trust_store(tmp_path: Path) -> None:
    store = Store("ssl.truststore", "PKCS12", OWNER.write_pkcs12(tmp_path / "owner"), PASSWORD)
    with pytest.raises(InvalidStore, match="it holds no trusted certificate"):
        read_trust_store(store)


def pem_blocks(data: bytes) -> list[str]:
    end = "-----END CERTIFICATE-----"
    return [f"{part}{end}\n".lstrip() for part in data.decode().split(end) if part.strip()]
