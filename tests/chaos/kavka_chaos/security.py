"""A cluster that speaks SASL_SSL only, with ACLs, whose certificates, credentials and ACLs change all the time."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kavka_chaos.network import CLIENTS, Network
from kavka_chaos.registries import Registry
from kavka_compat.our_tools import our_tool
from kavka_compat.secured import Secured
from support.access import AUTHORIZER
from support.waiting import wait_until

LOAD, ADMIN, BROKER = "load", "admin", "broker"
_PASSWORDS = {LOAD: "load-secret", ADMIN: "admin-secret", BROKER: "broker-secret"}
_PAUSE_S = 0.3
_CALL_S = 5
_SETTINGS = {
    "authorizer.class.name": AUTHORIZER,
    "super.users": f"User:{ADMIN};User:{BROKER}",
    "kavka.ssl.reload.interval.ms": "500",
    # A client may be refused once with a password that is about to be right again.
    "connection.failed.authentication.delay.ms": "100",
    "connections.max.reauth.ms": "5000",
    # A start reads users and ACLs besides: on a busy machine, behind proxies, that takes longer than a short session.
    "zookeeper.session.timeout.ms": "6000",
}
Log = Callable[[str], None]


def secure(directory: Path, network: Network, registry: Registry, machines: list[str]) -> Secured:
    """Make certificates for all machines, and the users that must be there before the first broker starts."""
    hosts = {"localhost", "127.0.0.1", *map(network.address, [CLIENTS, *machines])}
    secured = Secured(directory, _PASSWORDS, hosts=tuple(sorted(hosts)))
    for user, password in _PASSWORDS.items():
        words = ("--zookeeper", f"{registry.connect}/chaos", "--alter", "--entity-type", "users")
        stored = f"{secured.mechanism}=[password={password}]"
        our_tool("configs", *words, "--entity-name", user, "--add-config", stored)
    return secured


def broker_settings(secured: Secured) -> dict[str, str]:
    """Return what each broker has besides its listeners."""
    return {**secured.broker_settings(BROKER), **_SETTINGS}


class Changes:
    """The changes of an administrator while faults are done to the cluster. Calls that fail are made again later."""

    def __init__(self, secured: Secured, bootstrap: str, log: Log) -> None:
        """Connect as the administrator; `done` counts the changes that the cluster has confirmed."""
        self.done: Counter[str] = Counter()
        self._secured = secured
        settings = {"bootstrap.servers": bootstrap, **secured.librdkafka(ADMIN)}
        self._admin = AdminClient({**settings, "log_level": 0})
        self._log = log
        self._iterations = 4096
        self._is_let_in = True
        """False while the load's password may be another than it knows."""
        self._stop = Event()

    def allow(self) -> None:
        """Let the load create, write and read what it needs: with the ACLs that `_swap` replaces. Raise NotWell."""
        wait_until(lambda: self._try("allow", self._grant_first), 60, "the load's ACLs are made")

    def restore(self) -> None:
        """Return when the load has its password and its ACLs, whatever was interrupted."""
        wait_until(lambda: self._try("restore", self._restore), 60, "the load is let in again")

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Change this and that for the body of a `with`."""
        self._stop.clear()
        thread = Thread(target=self._run, name="changes")
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _run(self) -> None:
        steps = {
            "certificates renewed": self._renew,
            "credentials made again": self._store_again,
            "passwords changed and changed back": self._change_password,
            "ACLs replaced": self._swap,
            "other ACLs added and removed": self._change_others,
        }
        while True:
            for name, step in steps.items():
                while not self._is_let_in and not self._stop.is_set():
                    self._try("the load's password is put right", self._let_in)
                if self._stop.wait(_PAUSE_S):
                    return
                self.done[name] += self._try(name, step)

    def _try(self, name: str, step: Callable[[], None]) -> bool:
        """Return whether a change was made: brokers and the registry may be away."""
        try:
            step()
        except (KafkaException, TimeoutError) as error:
            self._log(f"{name}: not now: {error}")
            return False
        return True

    # -- certificates and credentials

    def _renew(self) -> None:
        self._secured.renew()

    def _store_again(self) -> None:
        """Store the same passwords with other salts and iterations."""
        self._iterations = 4096 + (self._iterations + 1) % 512
        for user in (LOAD, BROKER):
            self._store(user, self._secured.passwords[user])

    def _change_password(self) -> None:
        """Refuse the load's next connections, and authentications again, for a moment."""
        self._is_let_in = False  # also where the response does not come
        self._store(LOAD, "another")
        self._stop.wait(_PAUSE_S)
        self._let_in()

    def _let_in(self) -> None:
        self._store(LOAD, _PASSWORDS[LOAD])
        self._is_let_in = True

    def _store(self, user: str, password: str) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, self._iterations)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        self._wait(self._admin.alter_user_scram_credentials([change]))

    # -- ACLs

    def _grant_first(self) -> None:
        self._wait(self._admin.create_acls(_load(ResourcePatternType.PREFIXED)))

    def _swap(self) -> None:
        """Give the load the same rights by other ACLs, before those that it has are taken away, and back."""
        for new, old in (
            (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED),
            (ResourcePatternType.PREFIXED, ResourcePatternType.LITERAL),
        ):
            self._wait(self._admin.create_acls(_load(new)))
            self._wait(self._admin.delete_acls([_filter(each) for each in _load(old)]))

    def _change_others(self) -> None:
        others = [
            _acl(f"User:other-{n}", ResourceType.TOPIC, f"other-{n}", ResourcePatternType.LITERAL)
            for n in range(20)
        ]
        self._wait(self._admin.create_acls(others))
        self._wait(self._admin.delete_acls([_filter(each) for each in others]))

    def _restore(self) -> None:
        self._let_in()
        self._grant_first()

    def _wait(self, futures: dict[Any, Future[Any]]) -> None:
        """Return when all is confirmed. Raise KafkaException, TimeoutError."""
        for future in futures.values():
            future.result(_CALL_S)


def _load(pattern: ResourcePatternType) -> list[AclBinding]:
    """Return the load's rights, by prefixes or by `*`."""
    is_prefixed = pattern is ResourcePatternType.PREFIXED
    names = {ResourceType.TOPIC: "round-", ResourceType.GROUP: "group-of-"}
    return [
        _acl(f"User:{LOAD}", kind, name if is_prefixed else "*", pattern)
        for kind, name in names.items()
    ]


def _acl(who: str, kind: ResourceType, name: str, pattern: ResourcePatternType) -> AclBinding:
    return AclBinding(kind, name, pattern, who, "*", AclOperation.ALL, AclPermissionType.ALLOW)


def _filter(acl: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        acl.restype,
        acl.name,
        acl.resource_pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


@contextmanager
def changing(changes: Changes | None) -> Iterator[None]:
    """Let changes go on for the body of a `with`, where there are any."""
    with contextlib.nullcontext() if changes is None else changes.going_on():
        yield
