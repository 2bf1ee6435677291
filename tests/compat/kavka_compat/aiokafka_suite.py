"""aiokafka's own tests against our broker: a pytest plugin, and the run of it.

Their fixtures start Apache Kafka in a container, and run Kafka's scripts in it. The plugin is a `docker` package whose
containers are brokers of ours, with our tools for the scripts, and a KDC of MIT's. Their tests of SASL use PLAIN over
SASL_PLAINTEXT; the plugin has their clients speak another protocol and mechanism, where `run` asks for that.

aiokafka's package does not hold the tests, so they are taken from its repository.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
import types
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from kavka.core.sasl.unsecured_jwt import encode_unsecured
from kavka_compat.artifacts import user_cache
from kavka_compat.ours import kavka_command
from kavka_compat.processes import Running, free_port
from kavka_compat.suites import run_suite
from support.certificates import Authority
from support.kerberos import SERVICE, Realm, jaas, realm_in

_CACHE = user_cache("aiokafka")
_REPOSITORY = "https://github.com/aio-libs/aiokafka"
_TRANSPORT, _MECHANISM = "KAVKA_TRANSPORT", "KAVKA_MECHANISM"
_SECURITY = "org.apache.kafka.common.security"
_TLS_PASSWORD = "abcdefgh"


def sources() -> Path:
    """Return a checkout of the release that is installed, made on first use. Raise AssertionError."""
    release = version("aiokafka")
    directory = _CACHE / release
    if not (directory / "tests").is_dir():
        command = ["git", "clone", "-q", "--depth", "1", "--branch", f"v{release}", _REPOSITORY]
        done = subprocess.run(
            [*command, str(directory)], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, (
            f"put a checkout of {_REPOSITORY} at {directory}: {done.stderr}"
        )
    return directory


def run(
    directory: Path,
    transport: str = "SASL_PLAINTEXT",
    mechanism: str = "PLAIN",
    modules: tuple[str, ...] = ("sasl",),
) -> dict[str, str]:
    """Run modules of their tests in a copy below `directory`; return `PASSED` or another outcome by test."""
    directory.mkdir(exist_ok=True)
    copied = directory / "aiokafka"
    shutil.copytree(sources() / "tests", copied / "tests")
    with realm_in(directory / "realm") as realm:
        realm.admin("addprinc -pw aiokafka client/localhost")
        _configure_kerberos(realm, copied)
        return run_suite(
            "aiokafka_suite",
            [f"tests/test_{name}.py" for name in modules],
            copied,
            directory / "report.txt",
            prefix="tests/",
            options=[
                *("--no-fold-skipped", "-W", "error"),
                *("--docker-image", "kavka:2.13_3.9.0", "--no-pull"),
            ],
            environment={
                **realm.environment,
                "KAVKA_KEYTAB": str(realm.keytab(SERVICE, name="broker")),
                _TRANSPORT: transport,
                _MECHANISM: mechanism,
            },
        )


def _configure_kerberos(realm: Realm, copied: Path) -> None:
    """Put the realm's configuration where their fixture looks for one."""
    scripts = copied / "docker" / "scripts"
    scripts.mkdir(parents=True)
    shutil.copy(realm.krb5_conf, scripts / "krb5.conf")


# -- the package `docker`


class _Images:
    """The images of the engine."""

    def pull(self, image: str) -> None:
        raise AssertionError(f"{image} is no image of a registry")


class _Container:
    """A broker of ours, as their fixtures use a container of Apache Kafka."""

    def __init__(self, environment: dict[str, Any]) -> None:
        self.inner = f"127.0.0.1:{free_port()}"
        settings = _settings(environment, self.inner)
        overrides = [p for name, text in settings.items() for p in ("--override", f"{name}={text}")]
        self._process = Running(
            kavka_command("server-start", *overrides), Path.cwd() / "server.out"
        )
        self._process.wait_for("ready: ", 60)
        for user in ("admin", "test"):
            added = f"SCRAM-SHA-256=[password={user}],SCRAM-SHA-512=[password={user}]"
            code, output = self.exec_run(
                f"kafka-configs.sh --zookeeper - --alter --add-config {added} "
                f"--entity-type users --entity-name {user}"
            )
            assert code == 0, output

    def exec_run(self, command: str) -> tuple[int, bytes]:
        """Run one of Kafka's scripts by ours; what asks ZooKeeper asks the broker."""
        script, *words = shlex.split(command)
        arguments = ["--bootstrap-server", self.inner]
        while words:
            word = words.pop(0)
            if word in ("--zookeeper", "--authorizer-properties"):
                words.pop(0)
            else:
                arguments.append(word)
        tool = Path(script).name.removeprefix("kafka-").removesuffix(".sh")
        done = subprocess.run(
            kavka_command(tool, *arguments), capture_output=True, timeout=60, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def stop(self) -> None:
        self._process.stop()


class _Certificates:
    """A container in which their script makes certificates."""

    def exec_run(self, command: list[str], user: str) -> tuple[int, bytes]:
        """Write what their clients read, and what our broker does."""
        directory = Path.cwd() / "tests" / "ssl_cert"
        authority = Authority()
        authority.write_pem(directory / "ca.crt")
        authority.sign("broker").write_pem(directory / "broker.pem")
        signed = authority.sign("client", hosts=())
        (directory / "client.crt").write_bytes(signed.chain_pem)
        (directory / "client.key").write_bytes(signed.key_pem(_TLS_PASSWORD))
        return 0, b""

    def stop(self) -> None:
        """There is no process."""


class _Containers:
    """The containers of the engine."""

    def run(self, image: str, environment: dict[str, Any] | None = None, **_: Any) -> Any:
        return _Certificates() if environment is None else _Container(environment)


class _Engine:
    """The client of an engine."""

    images = _Images()
    containers = _Containers()

    def close(self) -> None:
        """Nothing is open."""


def _settings(environment: dict[str, Any], inner: str) -> dict[str, str]:
    """Return the settings of the broker that their container's script would start."""
    ports = {
        "PLAINTEXT": environment["ADVERTISED_PORT"],
        "SSL": environment["ADVERTISED_SSL_PORT"],
        "SASL_PLAINTEXT": environment["ADVERTISED_SASL_PLAINTEXT_PORT"],
        "SASL_SSL": environment["ADVERTISED_SASL_SSL_PORT"],
    }
    certificates = Path.cwd() / "tests" / "ssl_cert"
    listeners = [f"{name}://localhost:{port}" for name, port in ports.items()]
    plain = " ".join(f'user_{name}="{name}"' for name in ("admin", "test", "test2"))
    logins = {
        "plain": f"{_SECURITY}.plain.PlainLoginModule required {plain};",
        "gssapi": jaas(Path(os.environ["KAVKA_KEYTAB"]), SERVICE),
        "oauthbearer": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
    }
    return {
        "listeners": ",".join([*listeners, f"INNER://{inner}"]),
        "advertised.listeners": ",".join(
            [*(each.replace("localhost", "127.0.0.1") for each in listeners), f"INNER://{inner}"]
        ),
        "listener.security.protocol.map": ",".join(f"{n}:{n}" for n in ports) + ",INNER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "log.dirs": str(Path.cwd() / "data"),
        "num.partitions": str(environment["NUM_PARTITIONS"]),
        "auto.create.topics.enable": "true",
        "group.initial.rebalance.delay.ms": "0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.crt"),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": environment["SASL_MECHANISMS"] + ",OAUTHBEARER",
        "sasl.kerberos.service.name": "kafka",
        **{
            f"listener.name.{listener}.{mechanism}.sasl.jaas.config": text
            for listener in ("sasl_plaintext", "sasl_ssl")
            for mechanism, text in logins.items()
        },
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:admin;User:ANONYMOUS",
    }


# -- another protocol and mechanism


def _clients(made: Callable[..., Any], *topics: str, **config: Any) -> Any:
    """Make a client of theirs by the protocol and the mechanism that `run` asks for."""
    from aiokafka.abc import AbstractTokenProvider
    from aiokafka.helpers import create_ssl_context

    class Tokens(AbstractTokenProvider):
        async def token(self) -> str:
            now = time.time()
            return encode_unsecured({"sub": user, "iat": now, "exp": now + 60})

    user = config.get("sasl_plain_username", "")
    if config["sasl_mechanism"] == "PLAIN":
        config["sasl_mechanism"] = mechanism = os.environ[_MECHANISM]
        if mechanism == "OAUTHBEARER":
            config["sasl_oauth_token_provider"] = Tokens()
    if os.environ[_TRANSPORT] == "SASL_SSL":
        certificates = Path.cwd() / "tests" / "ssl_cert"
        config["security_protocol"] = "SASL_SSL"
        config["ssl_context"] = create_ssl_context(cafile=str(certificates / "ca.crt"))
        config["bootstrap_servers"] = [_secured(config["bootstrap_servers"])]
    return made(*topics, **config)


def _secured(addresses: list[str]) -> str:
    """Return the address of the listener with TLS, of the broker whose listener without it is known."""
    (plain,) = addresses
    assert plain == f"127.0.0.1:{_ports['SASL_PLAINTEXT']}"
    return f"127.0.0.1:{_ports['SASL_SSL']}"


_ports: dict[str, int] = {}


@pytest.fixture(autouse=True)
def _other_clients(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have their tests of SASL make their clients by `_clients`."""
    if request.module.__name__.endswith("test_sasl"):
        server = request.getfixturevalue("kafka_server")
        _ports.update(SASL_PLAINTEXT=server.sasl_plain_port, SASL_SSL=server.sasl_ssl_port)
        for name in ("AIOKafkaProducer", "AIOKafkaConsumer", "AIOKafkaAdminClient"):
            made = getattr(request.module, name)
            monkeypatch.setattr(request.module, name, partial(_clients, made))


def pytest_configure(config: pytest.Config) -> None:
    """Know their marks."""
    config.addinivalue_line("markers", "ssl: tests with certificates")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Let their fixtures find an engine."""
    docker: Any = types.ModuleType("docker")
    docker.from_env = _Engine
    docker.models = types.SimpleNamespace(containers=types.SimpleNamespace(Container=_Container))
    sys.modules["docker"] = docker
    import_module("aiokafka")
