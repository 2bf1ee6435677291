"""Spark over mutual TLS: format kavka, Spark's own connector in Java, and what Java makes of stores and names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type as Kind
from cryptography.x509.oid import NameOID

from kavka.client.blocking import Producer
from kavka.core.distinguished_names import subject_of
from kavka.net.tls.settings import parse_settings
from kavka.net.tls.stores import read_key_store, read_trust_store
from kavka.testing.local_cluster import LocalCluster
from support.certificates import PASSWORD, Authority
from support.tls import TlsFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class Server:
    """A broker that requires certificates of clients."""

    def __init__(self, files: TlsFiles, bootstrap_servers: str) -> None:
        self.files = files
        self.bootstrap_servers = bootstrap_servers

    def options(self) -> dict[str, str]:
        """Return the options of format kavka."""
        given = self.files.client_settings(certificate=self.files.client)
        given["bootstrap.servers"] = self.bootstrap_servers
        return {f"kafka.{name}": text for name, text in given.items()}

    def javas_options(self, key_store: str, kind: str) -> dict[str, str]:
        """Return the options of Spark's own connector; the truststore is JKS."""
        trust = self.files.authority.write_jks(self.files.directory / "ca.jks")
        return {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.type": "JKS",
            "kafka.ssl.truststore.location": trust,
            "kafka.ssl.truststore.password": PASSWORD,
            "kafka.ssl.keystore.type": kind,
            "kafka.ssl.keystore.location": key_store,
            "kafka.ssl.keystore.password": PASSWORD,
            "kafka.ssl.key.password": PASSWORD,
        }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("tls")
    files = TlsFiles(directory)
    given = files.broker_settings(client_auth="required")
    settings = {
        name.replace("__", "."): text for name, text in given.items() if name != "listeners"
    }
    with LocalCluster(directory / "cluster", brokers=1, settings=settings) as cluster:
        yield Server(files, cluster.bootstrap_servers)


def texts(frame: DataFrame) -> list[str]:
    return sorted(row[0] for row in frame.selectExpr("cast(value as string)").collect())


def test_format_kavka_reads_and_writes(spark: SparkSession, server: Server) -> None:
    settings = {name.removeprefix("kafka."): text for name, text in server.options().items()}
    with Producer(settings) as producer:
        producer.send("read", b"one")
        producer.send("read", b"two")
    options = server.options()
    read = spark.read.format("kavka").options(**options).option("subscribe", "read").load()
    assert texts(read) == ["one", "two"]
    rows = read.selectExpr("value")
    rows.write.format("kavka").mode("append").options(**options).option("topic", "written").save()
    assert texts(spark.read.format("kavka").options(**options, subscribe="written").load()) == [
        "one",
        "two",
    ]


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_sparks_own_connector_reads_and_writes(
    spark: SparkSession, server: Server, kind: str
) -> None:
    signed = server.files.authority.sign("spark", hosts=())
    path = server.files.directory / f"spark.{kind}"
    store = signed.write_pkcs12(path) if kind == "PKCS12" else signed.write_jks(path)
    options = server.javas_options(store, kind)
    rows = spark.createDataFrame([("a",), ("b",)], "value string")
    rows.write.format("kafka").options(**options, topic=kind).save()
    assert texts(spark.read.format("kafka").options(**options, subscribe=kind).load()) == ["a", "b"]


def test_what_java_wrote_as_jks_is_read(spark: SparkSession, tmp_path: Path) -> None:
    authority = Authority()
    signed = Authority("Between", authority).sign("owner")
    java: Any = spark._jvm
    source = signed.write_pkcs12(tmp_path / "source.p12")
    arguments = ["-importkeystore", "-srckeystore", source, "-srcstoretype", "PKCS12"]
    arguments += ["-srcstorepass", PASSWORD, "-destkeystore", str(tmp_path / "owner.jks")]
    arguments += ["-deststoretype", "JKS", "-deststorepass", PASSWORD, "-noprompt"]
    keytool(java, arguments)
    trust = authority.write_pem(tmp_path / "ca.pem")
    arguments = ["-importcert", "-file", trust, "-alias", "ca", "-noprompt", "-storetype", "JKS"]
    keytool(java, [*arguments, "-storepass", PASSWORD, "-keystore", str(tmp_path / "ca.jks")])
    settings = parse_settings(
        {
            "ssl.keystore.location": str(tmp_path / "owner.jks"),
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.location": str(tmp_path / "ca.jks"),
            "ssl.truststore.password": PASSWORD,
        }.get
    )
    material = read_key_store(settings)
    assert material is not None
    assert material.certificates.split() == signed.chain_pem.split()
    assert material.key.split() == signed.key_pem().split()
    trusted = authority.certificate.public_bytes(Encoding.PEM)
    assert (read_trust_store(settings.trust_store) or b"").split() == trusted.split()


def keytool(java: Any, arguments: list[str]) -> None:
    """Run the JVM's own keytool."""
    command = [str(java.java.lang.System.getProperty("java.home")) + "/bin/keytool", *arguments]
    builder = java.java.lang.ProcessBuilder(command)
    builder.inheritIO()
    assert builder.start().waitFor() == 0


NAMES: list[list[tuple[x509.ObjectIdentifier, str]]] = [
    [(NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "Acme"), (NameOID.COMMON_NAME, "a")],
    [(NameOID.COMMON_NAME, 'a,b=c+d<e>f;g"h\\i#j')],
    [(NameOID.COMMON_NAME, "#first"), (NameOID.LOCALITY_NAME, " spaces  around ")],
    [(NameOID.EMAIL_ADDRESS, "a@b.example"), (NameOID.COMMON_NAME, "Ünal 東京 😀")],
    [(NameOID.SERIAL_NUMBER, "7"), (NameOID.TITLE, "Dr"), (NameOID.USER_ID, "u1")],
    [(NameOID.DOMAIN_COMPONENT, "org"), (NameOID.STREET_ADDRESS, "Main 1")],
    [(NameOID.STATE_OR_PROVINCE_NAME, "BY"), (NameOID.ORGANIZATIONAL_UNIT_NAME, "a\tb\x7f")],
    [(NameOID.GIVEN_NAME, "G"), (NameOID.SURNAME, "S"), (NameOID.DN_QUALIFIER, "Q")],
]


def test_names_are_printed_as_java_prints_them(spark: SparkSession) -> None:
    java: Any = spark._jvm
    authority = Authority()
    for parts in NAMES:
        name = x509.Name([x509.NameAttribute(oid, text) for oid, text in parts])
        der = authority.sign(name=name).chain[0].public_bytes(Encoding.DER)
        shown = java.javax.security.auth.x500.X500Principal(name.public_bytes()).getName()
        assert subject_of(der) == shown, parts


def test_an_older_encoding_is_printed_as_java_prints_it(spark: SparkSession) -> None:
    java: Any = spark._jvm
    for kind in (Kind.BMPString, Kind.T61String, Kind.UniversalString, Kind.PrintableString):
        text = "Jürgen" if kind is not Kind.PrintableString else "Jurgen"
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text, kind)])
        der = Authority().sign(name=name).chain[0].public_bytes(Encoding.DER)
        shown = java.javax.security.auth.x500.X500Principal(name.public_bytes()).getName()
        assert subject_of(der) == shown, kind
