"""A broker of ours on Apache ZooKeeper's `secureClientPort`, with Kafka's settings `zookeeper.ssl.*`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from kavka_compat.brokers import Broker
from kavka_compat.our_tools import our_tool
from kavka_compat.ours import launch_kavka
from kavka_compat.processes import ProcessDied, free_port
from kavka_compat.zookeeper import RELEASES, Ensemble, run_ensemble
from support.certificates import PASSWORD, Authority

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(300)]


class Place:
    """An authority, the stores of ZooKeeper and of a broker, and brokers that are started in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.authority = Authority()
        self.trust = self.authority.write_pkcs12(directory / "ca.p12")
        self.server = self.authority.sign("zookeeper", hosts=("127.0.0.1",)).write_pkcs12(
            directory / "zookeeper.p12"
        )
        own = self.authority.sign("broker", hosts=())
        self.stores = {
            "PKCS12": own.write_pkcs12(directory / "own.p12"),
            "JKS": own.write_jks(directory / "own.jks"),
            "PEM": own.write_pem(directory / "own.pem"),
        }

    @contextmanager
    def zookeeper(self, release: str = "3.8", client_auth: str = "need") -> Iterator[Ensemble]:
        """Run ZooKeeper; it has no port in plain text."""
        settings = {
            "ssl.keyStore.location": self.server,
            "ssl.keyStore.password": PASSWORD,
            "ssl.trustStore.location": self.trust,
            "ssl.trustStore.password": PASSWORD,
            "ssl.clientAuth": client_auth,
        }
        with run_ensemble(self._directory, release=release, tls=settings) as ensemble:
            yield ensemble

    def settings(self, ensemble: Ensemble, kind: str | None = "PKCS12") -> dict[str, str]:
        """Return a broker's settings, as Kafka's documentation has them; `kind` None is without a certificate."""
        found = {
            "zookeeper.connect": f"{ensemble.connect}/kafka",
            "zookeeper.connection.timeout.ms": "60000",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.truststore.location": self.trust,
            "zookeeper.ssl.truststore.password": PASSWORD,
            # by default it is TLS 1.2, and ZooKeeper 3.9 serves TLS 1.3 only
            "zookeeper.ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
        }
        if kind is not None:
            found["zookeeper.ssl.keystore.location"] = self.stores[kind]
            found["zookeeper.ssl.keystore.type"] = kind
            if kind != "PEM":
                found["zookeeper.ssl.keystore.password"] = PASSWORD
        return found

    @contextmanager
    def broker(self, settings: Mapping[str, str]) -> Iterator[Broker]:
        """Run a broker."""
        broker = launch_kavka(self._directory / "broker", settings, free_port())
        try:
            broker.process.wait_for("ready: ", 90)
            yield broker
        finally:
            broker.process.stop()

    def reason(self, settings: Mapping[str, str]) -> str:
        """Start a broker that cannot reach the registry; return what it says."""
        quick = {**settings, "zookeeper.connection.timeout.ms": "8000"}
        broker = launch_kavka(self._directory / "refused", quick, free_port())
        try:
            with pytest.raises(ProcessDied):
                broker.process.wait_for("ready: ", 90)
            assert not broker.process.alive()
            return broker.process.text()
        finally:
            broker.process.kill()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def create(broker: Broker, topic: str) -> None:
    our_tool("topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", topic)


@pytest.mark.parametrize(
    ("release", "kind"), [*zip(RELEASES, ("PKCS12", "PEM"), strict=True), ("3.8", "JKS")]
)
def test_a_broker_lives_on_zookeeper_by_mutual_tls(place: Place, release: str, kind: str) -> None:
    """Its session outlives a restart of ZooKeeper, and so a second handshake."""
    with (
        place.zookeeper(release) as ensemble,
        place.broker(place.settings(ensemble, kind)) as broker,
    ):
        create(broker, "before")
        ensemble.kill(0)
        ensemble.start(0)
        ensemble.wait_for(0)
        create(broker, "after")
        listed = our_tool("topics", "--bootstrap-server", broker.bootstrap, "--list").lines
        assert listed == ["after", "before"]
        assert "Traceback" not in broker.process.text()


def test_a_broker_without_a_certificate_lives_where_none_is_asked_for(place: Place) -> None:
    with place.zookeeper(client_auth="none") as ensemble:
        settings = place.settings(ensemble, None)
        with place.broker(settings) as broker:
            create(broker, "t")


def test_what_keeps_a_broker_from_zookeeper_is_said(place: Place, tmp_path: Path) -> None:
    stranger = Authority("Another authority")
    with place.zookeeper() as ensemble:
        own = place.settings(ensemble)
        other = {"zookeeper.ssl.truststore.location": stranger.write_pkcs12(tmp_path / "other.p12")}
        elsewhere = own["zookeeper.connect"].replace("127.0.0.1", "localhost")
        reasons = {
            "no certificate": place.reason(place.settings(ensemble, None)),
            "another authority": place.reason({**own, **other}),
            "another host": place.reason({**own, "zookeeper.connect": elsewhere}),
            "no TLS": place.reason({**own, "zookeeper.ssl.client.enable": "false"}),
        }
        assert _KEY_STORE in reasons["no certificate"]
        assert "unable to get local issuer certificate" in reasons["another authority"]
        assert "zookeeper.ssl.truststore.location" in reasons["another authority"]
        assert "Hostname mismatch" in reasons["another host"]
        assert "zookeeper.ssl.endpoint.identification.algorithm" in reasons["another host"]
        assert "zookeeper.ssl.client.enable" in reasons["no TLS"]
    for text in reasons.values():
        assert "Traceback" not in text
        assert PASSWORD not in text


def test_what_keeps_a_broker_from_zookeeper_3_9_is_said(place: Place, tmp_path: Path) -> None:
    """It speaks TLS 1.3 only, in which a certificate is refused after the client's side is done."""
    store = Authority("Another authority").sign("stranger").write_pkcs12(tmp_path / "stranger.p12")
    with place.zookeeper("3.9") as ensemble:
        own = place.settings(ensemble)
        old = place.reason({**own, "zookeeper.ssl.enabled.protocols": "TLSv1.2"})
        assert "zookeeper.ssl.enabled.protocols" in old
        for refused in (
            place.reason(place.settings(ensemble, None)),
            place.reason({**own, "zookeeper.ssl.keystore.location": store}),
        ):
            assert _KEY_STORE in refused
            assert "Traceback" not in refused


_KEY_STORE = "zookeeper.ssl.keystore.location"
