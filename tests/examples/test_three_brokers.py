"""The files of examples/three-brokers make a cluster whose leader may die."""

from __future__ import annotations

import configparser
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kavka_compat.our_tools import our_tool
from kavka_compat.ours import kavka_command
from kavka_compat.processes import Running, free_port

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "three-brokers"


def commands() -> dict[str, list[str]]:
    """Return the commands of the Procfile."""
    lines = (FOLDER / "Procfile").read_text().splitlines()
    return {name: shlex.split(words) for name, _, words in (line.partition(": ") for line in lines)}


def overrides(file: str, directory: Path, ports: dict[str, int]) -> dict[str, str]:
    """Return settings that keep a process in the test's directory and on its ports."""
    if file.startswith("registry"):
        return {"clientPort": str(ports[file]), "dataDir": f"{directory}/registry"}
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[file]}",
        "log.dirs": f"{directory}/{file}",
        "zookeeper.connect": f"127.0.0.1:{ports['registry.properties']}",
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, dict[int, Running]]]:
    """Run the Procfile; give a bootstrap and the brokers."""
    files = {name: words[-1] for name, words in commands().items()}
    ports = {file: free_port() for file in files.values()}
    brokers: dict[int, Running] = {}
    with ExitStack() as stack:
        for name, (program, command, file) in commands().items():
            assert program == "kavka"
            settings = overrides(file, tmp_path, ports)
            words = [w for pair in settings.items() for w in ("--override", "=".join(pair))]
            process = Running(
                kavka_command(command, str(FOLDER / file), *words), tmp_path / f"{name}.out"
            )
            stack.callback(process.stop)
            process.wait_for("ready: ", 60)
            if name != "registry":
                brokers[int(name.removeprefix("broker"))] = process
        servers = ",".join(f"127.0.0.1:{ports[f'broker-{n}.properties']}" for n in brokers)
        yield servers, brokers


@pytest.mark.compat
@pytest.mark.timeout(240)
def test_the_procfile_makes_a_cluster(cluster: tuple[str, dict[int, Running]]) -> None:
    servers, brokers = cluster
    assert sorted(brokers) == [1, 2, 3]
    at = ("--bootstrap-server", servers)
    shape = ("--partitions", "3", "--replication-factor", "3")
    our_tool("topics", *at, "--create", "--topic", "replicated", *shape)
    described = our_tool("topics", *at, "--describe", "--topic", "replicated").lines
    assert len(described) == 4
    assert "min.insync.replicas=2" in described[0]
    our_tool("console-producer", *at, "--topic", "replicated", stdin="a\n")
    one = ("--from-beginning", "--max-messages", "1")
    # The first group creates __consumer_offsets, which needs three live brokers, as in Kafka.
    assert our_tool("console-consumer", *at, "--topic", "replicated", *one).lines == ["a"]
    brokers[1].kill()
    assert our_tool("console-consumer", *at, "--topic", "replicated", *one).lines == ["a"]


def test_the_units_start_what_the_procfile_starts() -> None:
    started = set()
    for unit in (FOLDER / "systemd").iterdir():
        parsed = configparser.ConfigParser(interpolation=None)
        parsed.optionxform = str  # type: ignore[assignment,method-assign]
        parsed.read(unit)
        program, command, file = parsed["Service"]["ExecStart"].split()
        assert program.endswith("/bin/kavka")
        names = [Path(file).name.replace("%i", str(n)) for n in (1, 2, 3)]
        started |= {(command, name) for name in names}
    assert started == {(words[1], words[2]) for words in commands().values()}
