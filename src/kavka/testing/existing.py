"""An existing cluster in place of brokers of the plugin's own: `--kavka-bootstrap-servers`.

What a client can do is done; what only the owner of the brokers can (faults, kills, settings, users) skips the test,
with the reason. Only what tests of this run have made is deleted: topics by `topic`, and topics and groups whose names
come from `unique`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

from kavka.testing.cluster import Cluster
from kavka.testing.host_process import HostProcess

_ANSWERED = ("close", "controller", "in_sync", "known_leaders", "leader", "replicated")
_MECHANISM = "SCRAM-SHA-256"


def skip(what: str) -> NoReturn:
    """Skip the test that needs what an existing cluster does not have."""
    pytest.skip(
        f"{what}: needs brokers that the plugin starts, not those of --kavka-bootstrap-servers"
    )


class ExistingCluster(Cluster):
    """A cluster that others started; `numbers` are its brokers' ids."""

    is_existing = True

    def __init__(self, host: HostProcess, settings: Mapping[str, str]) -> None:
        """Connect with a client's settings. Raise RuntimeError when no broker answers."""
        self._begin(host)
        self._created: set[str] = set()
        self._names: set[str] = set()
        facts = host.call(self._number, "attach", dict(settings))
        self.path: Path = facts["path"]
        self.bootstrap_servers = settings["bootstrap.servers"]
        self.zookeeper_connect = ""
        self.numbers: list[int] = facts["numbers"]
        self.pid = host.pid
        user = settings.get("sasl.username")
        self._mechanism = settings.get("sasl.mechanism", _MECHANISM)
        self._security: dict[str, Any] = {
            "protocol": settings.get("security.protocol", "PLAINTEXT"),
            "users": {} if user is None else {user: settings.get("sasl.password", "")},
            "ca_file": settings.get("ssl.ca.location"),
            "client_certificates": False,
        }

    def _ask(self, method: str, *args: Any, **named: Any) -> Any:
        if method not in _ANSWERED and not method.startswith("helpers."):
            skip(f"a call of a broker's inside ({method.replace('_', ' ')})")
        return super()._ask(method, *args, **named)

    def _change(self, method: str, *args: Any, **named: Any) -> Any:
        skip(f"a fault ({method.replace('_', ' ')})")

    def helper(self, method: str, *args: Any, **named: Any) -> Any:
        """Call one of the clients; remember the topics that are created."""
        if method == "allow":
            skip("ACLs")
        result = super().helper(method, *args, **named)
        if method == "create_topic":
            self._created.add(args[0])
        return result

    def unique(self, name: str) -> str:
        """Return a name that no other test has; a topic or group of that name is deleted after the test."""
        found = super().unique(name)
        self._names.add(found)
        return found

    def client_settings(
        self,
        library: str = "confluent-kafka",
        *,
        user: str | None = None,
        mechanism: str = _MECHANISM,
        certificate: str | None = None,
    ) -> dict[str, Any]:
        """Return the settings of a client, with the login of `--kavka-command-config`, whatever `mechanism` is."""
        if certificate is not None or (user is not None and user not in self._security["users"]):
            skip("another user than that of --kavka-command-config")
        return super().client_settings(library, user=user, mechanism=self._mechanism)

    def heal(self) -> None:
        """Do nothing: nothing was cut."""

    def troubles(self) -> list[str]:
        """Return nothing: the topics can be asked for."""
        return []

    @property
    def running(self) -> list[int]:
        """All brokers that were there at the beginning."""
        return self.numbers

    def reset(self) -> None:
        """Abort open transactions."""
        self.helper("abort_all")

    def clean(self) -> None:
        """Delete what tests have made: topics that `topic` created, and topics and groups with a name of `unique`."""
        names, self._names = self._names, set()
        created, self._created = self._created, set()
        gone = created | (names & set(self.helper("topics")))
        if gone:
            self.helper("delete_topics", sorted(gone))
        if names:
            self.helper("delete_named_groups", sorted(names))
        self.topics.clear()

    def close(self) -> None:
        """Clean, and disconnect."""
        if not self.is_closed:
            self.reset()
            self.clean()
            super().close()


def attached(host: HostProcess, settings: Mapping[str, str], options: Mapping[str, Any]) -> Cluster:
    """Return the existing cluster, for a test that asked for a cluster with `options`; skip what it cannot have."""
    wanted = {name: value for name, value in options.items() if value}
    brokers = wanted.pop("brokers", 1)
    if wanted:
        skip(f"a cluster with {', '.join(f'{name}={value!r}' for name, value in wanted.items())}")
    cluster = ExistingCluster(host, settings)
    if brokers > len(cluster.numbers):
        cluster.close()
        skip(f"a cluster of {brokers} brokers, and there are {len(cluster.numbers)}")
    return cluster
