"""Brokers of ours as real processes that are killed and come back, on the same port and with the same logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from kavka.errors import ErrorCode
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka_compat.apache import write_properties
from kavka_compat.asking import ask, wait_until_all_know_all
from kavka_compat.broker_processes import BrokerProcesses
from kavka_compat.ours import kavka_command
from kavka_compat.processes import free_port
from kavka_compat.served import run_served

_GROUP, _TRANSACTION = 0, 1


class KillableCluster(BrokerProcesses):
    """One broker with a registry of its own, or several on a served one; their ids are 0, 1 and so on."""

    def __init__(
        self, directory: Path, brokers: int, zookeeper: str, settings: Mapping[str, str]
    ) -> None:
        """Choose ports; none runs yet. `zookeeper` is empty for one broker alone."""
        super().__init__(directory, range(brokers))
        joined = {"zookeeper.connect": zookeeper, "zookeeper.session.timeout.ms": "6000"}
        self._settings = {**(joined if zookeeper else {}), **settings}

    def start(self, *numbers: int) -> None:
        """Start brokers (all, if none is named), and return when all are ready and know of each other."""
        chosen = numbers or tuple(self._ports)
        for number in chosen:
            self.launch(number)
        self.wait_ready(*chosen)
        wait_until_all_know_all(self.running_addresses)

    def assert_alive(self) -> None:
        """Insist that every broker that was started and not killed still runs."""
        for number, process in self._running.items():
            assert process.alive(), f"broker {number}: {process.text()[-3000:]}"

    def coordinator_of_group(self, group: str) -> int:
        """Return the broker that coordinates a group."""
        return self._coordinator(group, _GROUP)

    def coordinator_of_transactions(self, transactional_id: str) -> int:
        """Return the broker that coordinates a transactional id."""
        return self._coordinator(transactional_id, _TRANSACTION)

    def _coordinator(self, key: str, key_type: int) -> int:
        number = next(iter(self._running))
        request = FindCoordinatorRequest(key=key, key_type=key_type)
        response = ask(self.address(number), request, 3)
        assert response.error_code == ErrorCode.NONE, response
        return int(response.node_id)

    def _listeners(self, number: int) -> str:
        """Return the value of `listeners`."""
        return f"PLAINTEXT://{self.address(number)}"

    def _command(self, number: int) -> Sequence[str]:
        settings = {
            "broker.id": str(number),
            "broker.rack": f"RACK{number + 1}",
            "listeners": self._listeners(number),
            "log.dirs": str(self._directory / f"logs-{number}"),
            **self._settings,
        }
        path = write_properties(self._directory / f"server-{number}.properties", settings)
        return kavka_command("server-start", str(path))


class WithClientListener(KillableCluster):
    """Brokers with a second listener `CLIENTS`, whose security protocol the settings say.

    Brokers and the tests' own questions use the first one, which is plain text.
    """

    def __init__(
        self, directory: Path, brokers: int, zookeeper: str, settings: Mapping[str, str]
    ) -> None:
        """Choose ports; none runs yet."""
        inner = {"inter.broker.listener.name": "PLAINTEXT"}
        super().__init__(directory, brokers, zookeeper, {**inner, **settings})
        self._client_ports = {number: free_port() for number in self._ports}

    @property
    def client_bootstrap(self) -> str:
        """The listeners `CLIENTS` of all brokers."""
        return ",".join(f"127.0.0.1:{port}" for port in self._client_ports.values())

    def _listeners(self, number: int) -> str:
        return f"{super()._listeners(number)},CLIENTS://127.0.0.1:{self._client_ports[number]}"


Cluster = TypeVar("Cluster", bound=KillableCluster)


@contextmanager
def run_with_client_listener(
    directory: Path, brokers: int, settings: Mapping[str, str]
) -> Iterator[WithClientListener]:
    """Run several brokers of ours that have a listener `CLIENTS`, for the body of a `with`."""
    with _run(WithClientListener, directory, brokers, settings) as cluster:
        yield cluster


@contextmanager
def run_killable(
    directory: Path, brokers: int, settings: Mapping[str, str]
) -> Iterator[KillableCluster]:
    """Run brokers of ours for the body of a `with`; those that were not killed must live to its end."""
    with _run(KillableCluster, directory, brokers, settings) as cluster:
        yield cluster


@contextmanager
def _run(
    kind: type[Cluster], directory: Path, brokers: int, settings: Mapping[str, str]
) -> Iterator[Cluster]:
    with ExitStack() as stack:
        zookeeper = ""
        if brokers > 1:
            zookeeper = stack.enter_context(run_served(directory / "registry")).connect
        cluster = kind(directory, brokers, zookeeper, settings)
        stack.callback(cluster.abandon)
        cluster.start()
        yield cluster
        cluster.assert_alive()
