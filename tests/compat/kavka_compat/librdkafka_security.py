"""librdkafka's own tests of TLS, SASL and ACLs: `make librdkafka-tests TESTS=security`, or with names: "security oidc".

Each profile is a cluster with one kind of listener, the settings of clients of it, and the tests that need it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    pkcs12,
)

from kavka.client.admin import ScramUpsertion
from kavka.client.blocking import Admin
from kavka_compat import oidc_issuer
from kavka_compat.killable import run_with_client_listener
from kavka_compat.librdkafka_runner import Outcome, Runner
from support.certificates import PASSWORD, Authority

_REAUTHENTICATION_MS = "10000"
"""Tokens of 0142 live half of it, and are renewed a second before they end: on a busy machine that has to be enough."""
_USER, _SECRET = "admin", "admin-secret"
_SETTINGS = {
    "num.partitions": "4",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}
_AUTHORIZED = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
_MODULE = "org.apache.kafka.common.security"
PARTS = {"0081": ("Acls", "UserScramCredentials", "DescribeTopics", "DescribeCluster")}
"""Sub-tests by a part of their names: those that need an authorizer or users."""
LACKING = {
    "0097": "with `ssl` it expects that a client without a certificate is refused in the handshake, as TLS 1.2 does; "
    "by TLS 1.3, which client and broker choose, it is refused after it. Apache Kafka 3.9 fails it in the same place"
}
"""The tests that fail with the profile `ssl` alone."""
_OF_A_USER = {"0081": ("with_authorized",)}
"""Those that need a user with a password as well."""


@dataclass(frozen=True)
class Profile:
    """A kind of listener, what clients of it set, and the numbers of the tests that need it."""

    protocol: str
    tests: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    client: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    mechanism: str = ""


class _Files:
    """Keys and certificates of brokers, and of a client in each format, as the tests find them by the environment."""

    def __init__(self, directory: Path) -> None:
        authority, other = Authority(), Authority("Another authority")
        signed = authority.sign("librdkafka", hosts=())
        how = BestAvailableEncryption(PASSWORD.encode())
        own = authority.certificate
        contents = {
            "SSL_ca_pem": own.public_bytes(Encoding.PEM),
            "SSL_ca_der": own.public_bytes(Encoding.DER),
            "SSL_all_cas_pem": b"".join(
                one.certificate.public_bytes(Encoding.PEM) for one in (authority, other)
            ),
            "SSL_pub_pem": signed.chain_pem,
            "SSL_pub_der": signed.chain[0].public_bytes(Encoding.DER),
            "SSL_priv_pem": signed.key_pem(PASSWORD),
            "SSL_priv_der": signed.key_der(),
            "SSL_pkcs": pkcs12.serialize_key_and_certificates(
                b"librdkafka", signed.key, signed.chain[0], [own], how
            ),
        }
        self.environment = {"SSL_password": PASSWORD}
        for variable, content in contents.items():
            path = directory / variable
            path.touch(0o600)
            path.write_bytes(content)
            self.environment[variable] = str(path)
        self.broker = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": authority.sign("broker").write_pem(directory / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.environment["SSL_ca_pem"],
        }
        self.client = {
            "ssl.ca.location": self.environment["SSL_ca_pem"],
            "ssl.certificate.location": self.environment["SSL_pub_pem"],
            "ssl.key.location": self.environment["SSL_priv_pem"],
            "ssl.key.password": PASSWORD,
        }


def _sasl(mechanism: str, files: _Files, tests: tuple[str, ...], **jaas: str) -> Profile:
    """Return the profile of a mechanism with passwords: over TLS, but for PLAIN."""
    uses_tls = mechanism != "PLAIN"
    login = jaas.get("login", f"{_MODULE}.scram.ScramLoginModule required;")
    return Profile(
        "SASL_SSL" if uses_tls else "SASL_PLAINTEXT",
        tests,
        {
            "sasl.enabled.mechanisms": mechanism,
            f"listener.name.clients.{mechanism.lower()}.sasl.jaas.config": login,
            "connections.max.reauth.ms": _REAUTHENTICATION_MS,
            **_AUTHORIZED,
            # Of the brokers. The tests' user has ACLs of its own, and may do everything while there are none.
            "super.users": "User:ANONYMOUS",
            **(files.broker if uses_tls else {}),
        },
        {
            "sasl.mechanisms": mechanism,
            "sasl.username": _USER,
            "sasl.password": _SECRET,
            **(files.client if uses_tls else {}),
        },
        files.environment if uses_tls else {},
        mechanism,
    )


def _bearer(
    tests: tuple[str, ...], settings: Mapping[str, str], client: Mapping[str, str]
) -> Profile:
    given = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connections.max.reauth.ms": _REAUTHENTICATION_MS,
        **settings,
    }
    return Profile("SASL_PLAINTEXT", tests, given, {"sasl.mechanisms": "OAUTHBEARER", **client})


def profiles(files: _Files, issuer: oidc_issuer.Issuer, directory: Path) -> dict[str, Profile]:
    """Return the profiles by name."""
    users = f'{_MODULE}.plain.PlainLoginModule required user_{_USER}="{_SECRET}";'
    bearer = "listener.name.clients.oauthbearer.sasl.jaas.config"
    module = f"{_MODULE}.oauthbearer.OAuthBearerLoginModule required;"
    oidc = _bearer(
        ("0126", "0142"),
        {
            bearer: module,
            "sasl.oauthbearer.jwks.endpoint.url": f"{issuer.url}/keys",
            "sasl.oauthbearer.expected.issuer": issuer.url,
            "sasl.oauthbearer.expected.audience": oidc_issuer.AUDIENCE,
        },
        {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": oidc_issuer.CLIENT,
            "sasl.oauthbearer.client.secret": oidc_issuer.SECRET,
            "sasl.oauthbearer.scope": oidc_issuer.SCOPE,
            "sasl.oauthbearer.token.endpoint.url": f"{issuer.url}/token",
        },
    )
    urls = {
        "VALID_OIDC_URL": f"{issuer.url}/token",
        "INVALID_OIDC_URL": f"{issuer.url}/malformed",
        "EXPIRED_TOKEN_OIDC_URL": f"{issuer.url}/expired",
        **issuer.write_clients_key(directory),
    }
    return {
        "acls": Profile(
            "PLAINTEXT",
            ("0081", "0109", "0115", "0119"),
            {**_AUTHORIZED, "super.users": "User:nobody"},
        ),
        "ssl": Profile(
            "SSL",
            ("0097",),
            {**files.broker, "listener.name.clients.ssl.client.auth": "required"},
            files.client,
            {**files.environment, "SSL_client_auth": "required"},
        ),
        "ssl-requested": Profile(
            "SSL",
            ("0097",),
            {**files.broker, "listener.name.clients.ssl.client.auth": "requested"},
            files.client,
            {**files.environment, "SSL_client_auth": "requested"},
        ),
        "plain": _sasl("PLAIN", files, ("0135", "0142"), login=users),
        "scram-256": _sasl("SCRAM-SHA-256", files, ("0081", "0097", "0135", "0142")),
        "scram-512": _sasl("SCRAM-SHA-512", files, ("0135", "0142")),
        "unsecured": _bearer(
            ("0142",),
            {bearer: module},
            {
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={_USER} scope=required",
            },
        ),
        "oidc": Profile(oidc.protocol, oidc.tests, oidc.settings, oidc.client, urls),
    }


def _run_profile(name: str, profile: Profile, source: Path, directory: Path) -> list[Outcome]:
    settings = {
        **_SETTINGS,
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CLIENTS:{profile.protocol}",
        **profile.settings,
    }
    outcomes = []
    with run_with_client_listener(directory, 3, settings) as cluster:
        if profile.mechanism.startswith("SCRAM"):
            with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
                upsertion = ScramUpsertion(_USER, profile.mechanism, _SECRET, iterations=4096)
                assert admin.alter_user_scram_credentials([upsertion]) == {_USER: None}
        runner = Runner(
            source,
            directory,
            cluster.client_bootstrap,
            client={"security.protocol": profile.protocol, **profile.client},
            environment=profile.environment,
            tools_bootstrap=cluster.bootstrap,
        )
        for number in profile.tests:
            parts: tuple[str, ...] = PARTS.get(number, ("",))
            if profile.mechanism:
                parts += _OF_A_USER.get(number, ())
            for outcome in runner.run(number, False, parts):
                if not outcome.name.startswith(number):
                    continue  # the runner reports all that it does not run as well
                print(f"{outcome.state:10} {outcome.seconds:7.1f} s  {name}: {outcome}", flush=True)
                outcomes.append(outcome)
        cluster.assert_alive()
    return outcomes


def run(source: Path, directory: Path, wanted: Sequence[str]) -> list[Outcome]:
    """Run profiles (all, if none is named), each on a cluster of its own, saying each outcome at once.

    The runner's quick mode would leave out the sub-tests of most of these tests.
    """
    outcomes: list[Outcome] = []
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        issuer = stack.enter_context(oidc_issuer.serve())
        known = profiles(_Files(directory), issuer, directory)
        for name in wanted or known:
            if name not in known:
                raise SystemExit(
                    f"error: no profile {name!r} of security; there are {', '.join(known)}"
                )
            here = directory / name
            here.mkdir()
            outcomes += _run_profile(name, known[name], source, here)
    return outcomes
