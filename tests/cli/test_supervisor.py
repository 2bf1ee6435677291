"""`kavka server-start --workers N` as a process: what dies is started again, and nothing is left behind."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kavka.cli.server.signals import processes_of
from kavka_compat.our_tools import our_tool
from kavka_compat.ours import kavka_command
from kavka_compat.processes import Running
from kavka_compat.served import run_served
from support.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]

_STARTED = re.compile(r"process ready name=(.+) pid=(\d+) endpoint=(?:PLAINTEXT://)?(\S+) ")


class Supervised:
    """A supervisor with two workers on free ports."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        """Start it; it is not ready yet."""
        words = [
            *("server-start", "--workers", "2", "--override", "listeners=PLAINTEXT://127.0.0.1:0"),
            *("--override", f"log.dirs={directory}/logs", *arguments),
        ]
        self.process = Running(kavka_command(*words), directory / "supervisor.out")

    def starts(self, name: str) -> list[tuple[int, str]]:
        """Return the process and the place of each start of a child so far."""
        found = _STARTED.findall(self.process.text())
        return [(int(process), where) for child, process, where in found if child == name]

    def wait_for_start(self, name: str, number: int) -> tuple[int, str]:
        """Return the process and the place of the start with this number, the first is 1."""
        wait_until(lambda: len(self.starts(name)) >= number, what=self.process.text)
        return self.starts(name)[number - 1]

    def brokers(self) -> set[str]:
        """Return the ids of the brokers in the ready line."""
        line = self.process.wait_for("kavka brokers ", 90)
        return set(line.split()[2].split(","))

    def children(self) -> list[int]:
        """Return the processes of all starts so far."""
        return [int(process) for _name, process, _where in _STARTED.findall(self.process.text())]


def _lives(process: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False


@contextmanager
def _supervised(directory: Path, *arguments: str) -> Iterator[Supervised]:
    supervised = Supervised(directory, *arguments)
    try:
        supervised.process.wait_for("kavka brokers ", 90)
        yield supervised
    finally:
        if supervised.process.alive():
            assert supervised.process.stop(60) == 0, supervised.process.text()
        wait_until(
            lambda: not any(map(_lives, supervised.children())), what=supervised.process.text
        )


def _describe(supervised: Supervised, bootstrap: str) -> str:
    return our_tool("topics", "--bootstrap-server", bootstrap, "--describe", "--topic", "t").out


def test_a_worker_that_is_killed_comes_back_where_it_was(tmp_path: Path) -> None:
    with _supervised(tmp_path) as supervised:
        (first, where), (_other, elsewhere) = (
            supervised.wait_for_start(f"worker {number}", 1) for number in (0, 1)
        )
        topic = ("--topic", "t", "--replication-factor", "2", "--partitions", "2")
        our_tool("topics", "--bootstrap-server", where, "--create", *topic)
        os.kill(first, signal.SIGKILL)
        again, there = supervised.wait_for_start("worker 0", 2)
        assert again != first
        assert there == where
        assert (
            "process ended name=worker 0 signal=SIGKILL restart_s=0.1" in supervised.process.text()
        )
        wait_until(
            lambda: (
                sorted(re.findall(r"Isr: (\S+)", _describe(supervised, elsewhere)))
                in (["0,1", "0,1"], ["0,1", "1,0"], ["1,0", "1,0"])
            ),
            what=supervised.process.text,
        )


def test_a_worker_that_dies_again_and_again_waits_longer_each_time(tmp_path: Path) -> None:
    with _supervised(tmp_path) as supervised:
        for number in range(1, 4):
            process, _where = supervised.wait_for_start("worker 1", number)
            os.kill(process, signal.SIGKILL)
        supervised.wait_for_start("worker 1", 4)
        pauses = re.findall(
            r"name=worker 1 signal=SIGKILL restart_s=(\S+)", supervised.process.text()
        )
        assert pauses == ["0.1", "0.2", "0.4"]


def test_a_registry_that_is_killed_comes_back_and_the_brokers_go_on(tmp_path: Path) -> None:
    with _supervised(tmp_path) as supervised:
        registry, where = supervised.wait_for_start("registry", 1)
        _process, bootstrap = supervised.wait_for_start("worker 0", 1)
        os.kill(registry, signal.SIGKILL)
        assert supervised.wait_for_start("registry", 2)[1] == where
        topic = ("--topic", "t", "--replication-factor", "2", "--partitions", "1")
        our_tool("topics", "--bootstrap-server", bootstrap, "--create", *topic)
        assert "Replicas: " in _describe(supervised, bootstrap)
        assert [len(supervised.starts(f"worker {number}")) for number in (0, 1)] == [1, 1]


def test_a_worker_that_is_stopped_by_a_signal_is_started_again(tmp_path: Path) -> None:
    with _supervised(tmp_path) as supervised:
        process, _where = supervised.wait_for_start("worker 1", 1)
        os.kill(process, signal.SIGTERM)
        supervised.wait_for_start("worker 1", 2)
        (line,) = re.findall(r".*process ended name=worker 1 code=0.*", supervised.process.text())
        assert "ERROR" not in line


def test_a_worker_with_a_broken_file_is_tried_again_until_the_file_is_mended(
    tmp_path: Path,
) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\n")
    with _supervised(tmp_path, str(path)) as supervised:
        process, where = supervised.wait_for_start("worker 1", 1)
        path.write_text("num.partitions=none\n")
        os.kill(process, signal.SIGTERM)
        supervised.process.wait_for("process ended name=worker 1 code=1 restart_s=0.2", 90)
        path.write_text("num.partitions=3\n")
        _again, there = supervised.wait_for_start("worker 1", 2)
        assert there == where  # clients know it there, however often it failed meanwhile


def test_replicas_of_a_partition_are_on_two_machines_when_there_are_two(tmp_path: Path) -> None:
    with run_served(tmp_path / "registry") as registry, ExitStack() as stack:
        machines: list[set[str]] = []
        for rack in ("a", "b"):
            directory = tmp_path / rack
            directory.mkdir()
            settings = (
                f"zookeeper.connect={registry.connect}",
                f"broker.rack={rack}",
                "controlled.shutdown.enable=false",  # the last broker has no other to move leaderships to
            )
            overrides = [word for setting in settings for word in ("--override", setting)]
            supervised = stack.enter_context(_supervised(directory, *overrides))
            machines.append(supervised.brokers())
        assert machines == [{"1001", "1002"}, {"1003", "1004"}]
        _process, where = supervised.wait_for_start("worker 0", 1)
        shape = ("--partitions", "8", "--replication-factor", "2")
        our_tool("topics", "--bootstrap-server", where, "--create", "--topic", "t", *shape)
        placed = re.findall(r"Replicas: (\d+),(\d+)", _describe(supervised, where))
        assert len(placed) == 8
        assert all((one in machines[0]) is (other in machines[1]) for one, other in placed)


def test_server_stop_signals_the_supervisor_and_not_its_children(tmp_path: Path) -> None:
    with _supervised(tmp_path) as supervised:
        children = set(supervised.children())
        assert supervised.process.pid in processes_of(b"server-start")
        assert not children & set(processes_of(b"server-start"))
        assert not children & set(processes_of(b"zookeeper-server-start"))


def test_a_signal_during_the_start_takes_it_back(tmp_path: Path) -> None:
    supervised = Supervised(tmp_path)
    supervised.wait_for_start("registry", 1)
    assert supervised.process.stop(60) == 0
    assert "kavka brokers" not in supervised.process.text()
    assert not any(map(_lives, supervised.children()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_cleanly_and_the_registry_last(
    tmp_path: Path, number: signal.Signals
) -> None:
    with _supervised(tmp_path) as supervised:
        supervised.process.signal(number)
        wait_until(lambda: not supervised.process.alive(), what=supervised.process.text)
        assert supervised.process.stop() == 0
        stopped = re.findall(r"process stopped name=(.+) code=0 ", supervised.process.text())
        assert stopped == ["worker 1", "worker 0", "registry"]
    for worker in (0, 1):
        assert (tmp_path / "logs" / f"worker-{worker}" / ".kafka_cleanshutdown").exists()


def test_no_child_outlives_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    with _supervised(tmp_path) as supervised:
        children = supervised.children()
        assert len(children) == 3
        supervised.process.kill()
        wait_until(lambda: not any(map(_lives, children)), what=supervised.process.text)
    for worker in (0, 1):
        assert (tmp_path / "logs" / f"worker-{worker}" / ".kafka_cleanshutdown").exists()


def test_a_worker_that_can_never_start_ends_all_with_its_reason(tmp_path: Path) -> None:
    supervised = Supervised(tmp_path, "--override", "num.partitions=none")
    wait_until(lambda: not supervised.process.alive(), what=supervised.process.text)
    said = supervised.process.text()
    assert supervised.process.stop() == 1
    assert "Invalid value none for configuration num.partitions" in said
    assert re.search(r"kavka server-start: worker \d cannot start \(exit code 1\)", said)
    assert not any(map(_lives, supervised.children()))


def test_workers_serve_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "log"))
    settings = ("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={tmp_path}/logs")
    overrides = [word for setting in settings for word in ("--override", setting)]
    said = our_tool("server-start", "-daemon", "--workers", "2", *overrides).out
    log = tmp_path / "log" / "server.log"
    process = int(said.partition("(process ")[2].partition(",")[0])
    try:
        assert said.startswith("kavka brokers 0,1 ready: PLAINTEXT://127.0.0.1:")
    finally:
        os.kill(process, signal.SIGTERM)
        wait_until(lambda: not _lives(process), what=log.read_text)
    assert "[worker 0] " in log.read_text()
    assert "[worker 1] " in log.read_text()
