"""kazoo at a served registry with users: its digest identities, its SASL logins, and access lists of both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    InvalidACLError,
    NoAuthError,
    SessionClosedRequireSaslError,
)
from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE, make_acl, make_digest_acl

from kavka.registry.registry_server import RegistryServer
from support.served_registry import USERS, jaas_file, served_registry


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryServer]:
    with served_registry(kavka__jaas__file=str(jaas_file(tmp_path))) as server:
        yield server


@contextmanager
def client(registry: RegistryServer, **options: Any) -> Iterator[Any]:
    found = KazooClient(f"127.0.0.1:{registry.port}", **options)
    found.start(20)
    try:
        yield found
    finally:
        found.stop()
        found.close()


def sasl(user: str) -> dict[str, Any]:
    options = {"mechanism": "DIGEST-MD5", "username": user, "password": USERS[user]}
    return {"sasl_options": options}


def test_a_sasl_users_node_is_read_by_all_and_changed_by_the_user(registry: RegistryServer) -> None:
    with client(registry, **sasl("kafka")) as kafka, client(registry, **sasl("alice")) as alice:
        kafka.create("/k", b"v", acl=CREATOR_ALL_ACL + READ_ACL_UNSAFE)
        entries, stat = alice.get_acls("/k")
        assert [(one.perms, one.id.scheme, one.id.id) for one in entries] == [
            (31, "sasl", "kafka"),
            (1, "world", "anyone"),
        ]
        assert alice.get("/k")[0] == b"v"
        for refused in (
            lambda: alice.set("/k", b"x"),
            lambda: alice.create("/k/below"),
            lambda: alice.set_acls("/k", READ_ACL_UNSAFE),
        ):
            with pytest.raises(NoAuthError):
                refused()
        assert kafka.set_acls("/k", CREATOR_ALL_ACL, stat.aversion).aversion == 1
        with pytest.raises(NoAuthError):
            alice.get("/k")


def test_digest_identities_protect_and_open_nodes(registry: RegistryServer) -> None:
    with client(registry, auth_data=[("digest", "me:secret")]) as me, client(registry) as other:
        me.create("/mine", b"v", acl=[make_digest_acl("me", "secret", all=True)])
        with pytest.raises(NoAuthError):
            other.get("/mine")
        other.add_auth("digest", "me:guess")
        with pytest.raises(NoAuthError):
            other.get("/mine")
        other.add_auth("digest", "me:secret")
        assert other.get("/mine")[0] == b"v"


def test_lists_that_fit_nobody_and_schemes_that_are_none_are_refused(
    registry: RegistryServer,
) -> None:
    with client(registry) as anybody:
        for acl in (CREATOR_ALL_ACL, [make_acl("moon", "x", all=True)]):
            with pytest.raises(InvalidACLError):
                anybody.create("/a", acl=acl)
        with pytest.raises(AuthFailedError):
            anybody.add_auth("moon", "x")


def test_a_connection_without_a_required_login_is_closed(tmp_path: Path) -> None:
    settings = {
        "kavka__jaas__file": str(jaas_file(tmp_path)),
        "enforce__auth__enabled": "true",
        "enforce__auth__schemes": "sasl",
    }
    with served_registry(**settings) as registry:
        with client(registry, **sasl("kafka")) as kafka:
            assert kafka.get_children("/") == []
        with client(registry) as anybody, pytest.raises(SessionClosedRequireSaslError):
            anybody.get_children("/")
