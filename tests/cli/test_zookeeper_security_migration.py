"""`kavka zookeeper-security-migration` and the identity of the other commands that reach a registry themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.cli.main import main
from kavka.core.znode_access import OPEN, AclEntry
from kavka.registry.jaas_files import login_of_file, settings_of_environment
from kavka.registry.registry_server import RegistryServer
from kavka.registry.zookeeper_access import SECURE_ROOTS
from support.served_registry import jaas_file, served_registry
from support.tls import TlsFiles

OWNER, READERS = AclEntry(31, "sasl", "kafka"), AclEntry(1, "world", "anyone")


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryServer]:
    with served_registry(kavka__jaas__file=str(jaas_file(tmp_path))) as server:
        yield server


def log_in(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g -Djava.security.auth.login.config={path}")


def migrate(registry: RegistryServer, which: str, *more: str) -> int:
    connect = f"127.0.0.1:{registry.port}/k"
    options = ["--zookeeper.acl", which, "--zookeeper.connect", connect]
    return main(["zookeeper-security-migration", *options, *more])


def test_znodes_are_protected_and_opened_again(
    registry: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(monkeypatch, jaas_file(tmp_path))
    shell = ["zookeeper-shell", f"127.0.0.1:{registry.port}/k"]
    for path in ("/consumers", "/config", "/config/users", "/config/users/u", "/config/topics"):
        assert main([*shell, "create", path]) == 0
    tree = registry.znode_server.tree
    assert migrate(registry, "secure") == 0
    for path in ("", *SECURE_ROOTS, "/config/topics"):
        if path not in ("/controller", "/migration"):
            assert tree.access(f"/k{path}") == (OWNER, READERS), path
    assert tree.access("/k/config/users") == tree.access("/k/config/users/u") == (OWNER,)
    assert tree.access("/k/consumers") == tree.access("/") == OPEN
    assert tree.stat("/k/controller") is tree.stat("/k/migration") is None
    assert migrate(registry, "unsecure") == 0
    assert {node.access for node in tree.dump()} == {OPEN}


def test_a_path_check_changes_nothing_where_paths_are_missing(
    registry: RegistryServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_in(monkeypatch, jaas_file(tmp_path))
    assert migrate(registry, "secure", "--enable.path.check") == 1
    assert "secure root paths do not exist in ZooKeeper: /admin,/brokers" in capsys.readouterr().out
    assert registry.znode_server.tree.children("/k") == []


def test_znodes_of_another_identity_stay_as_they_are(
    registry: RegistryServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_in(monkeypatch, jaas_file(tmp_path))
    assert migrate(registry, "secure") == 0
    log_in(monkeypatch, jaas_file(tmp_path, "alice"))
    assert migrate(registry, "unsecure") == 1
    assert "denies access to /" in capsys.readouterr().err
    assert OPEN not in {registry.znode_server.tree.access(f"/k{path}") for path in ("", "/admin")}


@pytest.mark.parametrize(
    ("options", "login", "reason"),
    [
        ("", "", "No JAAS configuration file and no TLS client certificate"),
        ("", "-Djava.security.auth.login.config=none.conf", "No such file or directory"),
        ("", "-Djava.security.auth.login.config={jaas} -Dzookeeper.sasl.client=false", "No JAAS"),
        ("", "-Djava.security.auth.login.config={jaas} -Dzookeeper.sasl.clientconfig=X", "No JAAS"),
        ("--zk-tls-config-file none.properties", "", "No such file or directory"),
    ],
)
def test_without_an_identity_there_is_nobody_to_protect_znodes_for(
    options: str,
    login: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", login.format(jaas=jaas_file(tmp_path)))
    command = ["zookeeper-security-migration", "--zookeeper.acl", "secure", *options.split()]
    assert main(command) != 0
    assert reason in "".join(capsys.readouterr())


def test_a_wrong_password_is_said_and_shown_nowhere(
    registry: RegistryServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_in(monkeypatch, jaas_file(tmp_path, password="a guess"))
    assert migrate(registry, "secure") == 1
    said = "".join(capsys.readouterr())
    assert "does not take the login of user kafka (section Client of " in said
    assert "unknown user or wrong password" in said
    assert "a guess" not in said


def test_tools_reach_a_registry_with_tls_and_have_their_certificates_identity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = TlsFiles(tmp_path)
    properties = tmp_path / "tls.properties"
    properties.write_text(
        f"zookeeper.ssl.truststore.location={files.trust}\n"
        f"zookeeper.ssl.keystore.location={files.client}\n"
        "other.setting=1\n"
    )
    settings = {
        "secureClientPort": "0",
        "secureClientPortAddress": "127.0.0.1",
        "ssl__keyStore__location": files.broker,
        "ssl__trustStore__location": files.trust,
    }
    with served_registry(**settings) as registry:
        connect = f"127.0.0.1:{registry.secure_port}"
        tls = ["--zk-tls-config-file", str(properties)]
        entity = ["--entity-type", "users", "--entity-name", "u"]
        add = ["--add-config", "SCRAM-SHA-256=[password=x,iterations=4096]"]
        alter = ["configs", "--zookeeper", connect, *tls, "--alter", *entity, *add]
        assert main(alter) == 0
        shell = ["zookeeper-shell", connect, tls[0][1:], tls[1]]
        assert main([*shell, "getAcl", "/config/users/u"]) == 0
        assert registry.znode_server.tree.access("/config/users/u") == (
            AclEntry(31, "x509", "CN=alice,O=Acme"),
        )
    assert "'x509,'CN=alice,O=Acme\n: cdrwa\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-Xmx1g", {}),
        ("-Djava.security.auth.login.config={jaas}", {"file": "{jaas}", "section": "Client"}),
        (
            "-Dzookeeper.sasl.clientconfig=Server -Djava.security.auth.login.config='{jaas}'",
            {"file": "{jaas}", "section": "Server"},
        ),
        ("-Dzookeeper.sasl.client=false -Djava.security.auth.login.config={jaas}", {}),
        ("-Dzookeeper.sasl.clientconfig=Other -Djava.security.auth.login.config={jaas}", {}),
        (
            "-Djava.security.auth.login.config={jaas} 'unfinished",
            {"file": "{jaas}", "section": "Client"},
        ),
    ],
)
def test_the_login_of_kafka_opts_is_the_brokers(
    words: str, expected: dict[str, str], tmp_path: Path
) -> None:
    jaas = jaas_file(tmp_path)
    found = settings_of_environment({"KAFKA_OPTS": words.format(jaas=jaas)})
    assert found == {
        f"kavka.zookeeper.jaas.{name}": text.format(jaas=jaas) for name, text in expected.items()
    }


def test_a_jaas_file_that_every_user_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jaas = jaas_file(tmp_path)
    jaas.chmod(0o600)
    login_of_file(str(jaas), "Client")
    other = jaas_file(tmp_path, "alice")
    other.chmod(0o644)
    for _ in range(2):
        login_of_file(str(other), "Client")
    assert caplog.messages == [f"passwords readable by every user file={other}"]


def test_a_registry_that_wants_a_login_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    users = str(jaas_file(tmp_path))
    with served_registry(kavka__jaas__file=users, sessionRequireClientSASLAuth="true") as server:
        at = f"127.0.0.1:{server.port}"
        user = ["configs", "--zookeeper", at, "--alter", "--user", "broker"]
        assert main([*user, "--add-config", "SCRAM-SHA-512=[password=broker-secret]"]) == 1
    printed = capsys.readouterr().err
    assert "answers only clients that log in" in printed
    assert "KAFKA_OPTS" in printed
    assert "Traceback" not in printed
