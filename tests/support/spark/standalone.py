"""Spark's standalone mode on this machine: a master and workers, each in a process of its own, which tests kill."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

import kavka
from support.waiting import wait_until

SPARK_HOME = Path(pyspark.__file__).parent
SOURCES = Path(kavka.__file__).parents[1]
OURS = ("kavka", "pyspark_kavka", "__editable__", "crc32c", "cramjam")
"""Beginnings of the names of kavka's installed files, and of its dependencies'."""
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Two machines, as Spark sees it: it starts a second attempt of a task on another machine only."""


def environment() -> dict[str, str]:
    """Return the variables for processes of Spark that start executors."""
    found = {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(SOURCES),
        "SPARK_WORKER_OPTS": "-XX:TieredStopAtLevel=1",
        "KAVKA_SPARK_CLASSES": "none",
    }
    return os.environ | found


class Standalone:
    """A master and a worker with one core for each of the hosts."""

    def __init__(self, directory: Path, variables: dict[str, str] | None = None) -> None:
        """Choose where logs and files are, and the variables of the daemons; nothing runs yet."""
        self._variables = environment() if variables is None else variables
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self.url = ""

    def start(self, hosts: Sequence[str] = HOSTS) -> None:
        """Start the master and its workers, and return when they know of each other."""
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        _, log = self._launch("master.Master", arguments)
        self.url = wait_for(log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        for host in hosts:
            self.start_worker(host)

    def start_worker(self, host: str) -> None:
        """Start a worker."""
        place = ["--host", host, "--webui-port", "0", "--work-dir", str(self._directory / host)]
        room = ["--cores", "1", "--memory", "1g"]
        self._workers[host], log = self._launch("worker.Worker", [*place, *room, self.url])
        wait_for(log, "Successfully registered with master")

    def worker(self, host: str) -> int:
        """Return the process id of a worker; its executors are below it."""
        return self._workers[host].pid

    def stop(self) -> None:
        """End all."""
        for process in reversed(self._daemons):
            process.terminate()
        for process in self._daemons:
            process.wait(30)

    def _launch(self, name: str, arguments: list[str]) -> tuple[subprocess.Popen[bytes], Path]:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        log = self._directory / f"daemon-{len(self._daemons)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*command, *arguments],
                env=self._variables,
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
            )
        self._daemons.append(process)
        return process, log


def bare_python(directory: Path) -> Path:
    """Make a Python with what is installed here, but for kavka and what it needs."""
    venv.create(directory, symlinks=True, with_pip=False)
    here = Path(sysconfig.get_paths()["purelib"])
    there = next((directory / "lib").glob("python3*/site-packages"))
    for path in here.iterdir():
        if not path.name.startswith(OURS) and path.suffix != ".pth":
            (there / path.name).symlink_to(path)
    return directory / "bin" / "python"


def unpacked(archive: Path, directory: Path) -> Path:
    """Unpack an archive of `kavka spark-package` and return where."""
    with tarfile.open(archive) as opened:
        opened.extractall(directory)
    return directory


@contextmanager
def run_standalone(
    directory: Path, variables: dict[str, str] | None = None
) -> Iterator[Standalone]:
    """Run a master and its workers for the body of a `with`."""
    running = Standalone(directory, variables)
    try:
        running.start()
        yield running
    finally:
        running.stop()


def wait_for(log: Path, pattern: str) -> str:
    """Return the first group of a pattern, or the match, once it is in the log."""

    def search() -> re.Match[str] | None:
        return re.search(pattern, log.read_text(errors="replace"))

    wait_until(search, 60, lambda: f"{pattern!r} in:\n{log.read_text(errors='replace')}")
    found = search()
    assert found is not None
    return found[1] if found.groups() else found[0]
