"""Brokers of ours as real processes that are killed and come back, on the same port and with the same logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kavka.errors import ErrorCode
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka_compat.apache import write_properties
from kavka_compat.asking import ask, wait_until_all_know_all
from kavka_compat.ours import kavka_command
from kavka_compat.processes import Running, free_port
from kavka_compat.served import run_served

_GROUP, _TRANSACTION = 0, 1


class KillableCluster:
    """One broker with a registry of its own, or several on a served one; their ids are 0, 1 and so on."""

    def __init__(
        self, directory: Path, brokers: int, zookeeper: str, settings: Mapping[str, str]
    ) -> None:
        """Choose ports; none runs yet. `zookeeper` is empty for one broker alone."""
        self._directory = directory
        self._ports = {number: free_port() for number in range(brokers)}
        self._running: dict[int, Running] = {}
        self._starts = 0
        joined = {"zookeeper.connect": zookeeper, "zookeeper.session.timeout.ms": "6000"}
        self._settings = {**(joined if zookeeper else {}), **settings}

    @property
    def bootstrap(self) -> str:
        """All brokers, dead ones too, as clients have them in their configuration."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def start(self, *numbers: int) -> None:
        """Start brokers (all, if none is named), and return when all are ready and know of each other."""
        chosen = numbers or tuple(self._ports)
        for number in chosen:
            self._launch(number)
        for number in chosen:
            self._running[number].wait_for(f"kavka broker {number} ready: ", 60)
        wait_until_all_know_all([f"127.0.0.1:{self._ports[n]}" for n in self._running])

    def kill(self, number: int) -> None:
        """End a broker with SIGKILL."""
        self._running.pop(number).kill()

    def stop(self) -> None:
        """Kill running processes: their data are not needed."""
        for process in self._running.values():
            process.kill()
        self._running.clear()

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
        answer = ask(f"127.0.0.1:{self._ports[number]}", request, 3)
        assert answer.error_code == ErrorCode.NONE, answer
        return int(answer.node_id)

    def _launch(self, number: int) -> None:
        self._starts += 1
        settings = {
            "broker.id": str(number),
            "broker.rack": f"RACK{number + 1}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._ports[number]}",
            "log.dirs": str(self._directory / f"logs-{number}"),
            **self._settings,
        }
        path = write_properties(self._directory / f"server-{number}.properties", settings)
        output = self._directory / f"start-{self._starts}-of-{number}.out"
        self._running[number] = Running(kavka_command("server-start", str(path)), output)


@contextmanager
def run_killable(
    directory: Path, brokers: int, settings: Mapping[str, str]
) -> Iterator[KillableCluster]:
    """Run brokers of ours for the body of a `with`; those that were not killed must live to its end."""
    with ExitStack() as stack:
        zookeeper = ""
        if brokers > 1:
            zookeeper = stack.enter_context(run_served(directory / "registry")).connect
        cluster = KillableCluster(directory, brokers, zookeeper, settings)
        stack.callback(cluster.stop)
        cluster.start()
        yield cluster
        cluster.assert_alive()
