"""A collector that is killed (SIGKILL) again and again while a program writes and its file is rotated.

`KAVKA_COLLECT_KILLS` says how often; the ordinary run has a few rounds, `make long` a hundred.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka_compat.brokers import Broker
from support.collectors import collector, messages, reader

pytestmark = pytest.mark.compat

KILLS = int(os.environ.get("KAVKA_COLLECT_KILLS", "4"))
ALL_KILLS = int(os.environ.get("KAVKA_COLLECT_KILLS", "100"))


class Program:
    """Writes numbered lines into a file, opened again for each of them, so that it may be rotated meanwhile."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.lock = threading.Lock()
        """Held while a file is copied and truncated: lines between the two would be lost by the rotation itself."""
        self.written: list[str] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Program:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._is_over.wait(0.001):
            with self.lock, self.log.open("a") as file:
                for _ in range(3):
                    line = f"{len(self.written):08} {'x' * (len(self.written) % 90)}"
                    file.write(line[:5])
                    file.flush()  # a line that has no end yet
                    file.write(line[5:] + "\n")
                    self.written.append(line)


def rotate(program: Program, rng: random.Random) -> None:
    """Rotate in one of the ways that there are, as logrotate does."""
    log = program.log
    plain = sorted(log.parent.glob("app.log.*[0-9]"))
    number = max((int(path.name.split(".")[2]) for path in log.parent.glob("app.log.*")), default=0)
    chance = rng.random()
    if chance < 0.3 and plain:
        with (
            plain[0].open("rb") as source,
            gzip.open(f"{plain[0]}.gz", "wb") as archive,
        ):
            shutil.copyfileobj(source, archive)
        plain[0].unlink()
    elif not log.exists() or log.stat().st_size < 5000:
        return
    elif chance < 0.65:
        with program.lock:
            log.rename(f"{log}.{number + 1}")
    else:
        with program.lock:
            shutil.copyfile(log, f"{log}.{number + 1}")
            os.truncate(log, 0)


def run(
    broker: Broker, topic: str, tmp_path: Path, kills: int, turn: Callable[[Program], None]
) -> None:
    """Kill a collector after random times, `turn` being called in between; in the end each line is there once."""
    rng = random.Random(topic)
    logs = tmp_path / "logs"
    logs.mkdir()
    arguments = (
        logs / "app.log*",
        "--name",
        topic,
        "--poll-interval",
        "0.02",
        "--report-interval",
        "0.1",
    )
    output = tmp_path / "out"
    with Program(logs / "app.log") as program, reader(broker.bootstrap, topic) as records:
        for _ in range(kills):
            with collector(output, "files", broker.bootstrap, topic, *arguments) as process:
                process.wait_for("collected", 60)
                for _ in range(rng.randrange(1, 5)):
                    turn(program)
                    records.read_until(len(records.records) + rng.randrange(1, 60), 5)
    with collector(output, "files", broker.bootstrap, topic, *arguments) as process:
        with reader(broker.bootstrap, topic) as records:
            records.read_until(len(program.written), 120)
            received = Counter(messages(records.read_rest()))
        assert process.stop() == 0, process.text()
    written = Counter(program.written)
    assert sorted((written - received).elements()) == [], "lost"
    assert sorted((received - written).elements()) == [], "doubled"


def in_turn(seed: str) -> Callable[[Program], None]:
    rng = random.Random(seed)
    return lambda program: rotate(program, rng)


def test_kills_with_rotation_lose_and_double_nothing(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    run(kavka_broker, fresh_name, tmp_path, KILLS, in_turn("short"))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", ["a", "b"])
def test_many_kills_with_rotation_lose_and_double_nothing(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path, seed: str
) -> None:
    run(kavka_broker, fresh_name, tmp_path, ALL_KILLS, in_turn(seed))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", ["create", "copytruncate"])
@pytest.mark.parametrize("compress", ["compress", "compress\n delaycompress", "nocompress"])
def test_rotation_by_logrotate_with_kills(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path, way: str, compress: str
) -> None:
    """The program is held still while logrotate works: between copy and truncation it would lose lines itself."""
    configuration = tmp_path / "logrotate.conf"
    configuration.write_text(
        f"{tmp_path}/logs/app.log {{\n rotate 500\n size 4k\n {way}\n {compress}\n missingok\n}}\n"
    )
    program = shutil.which("logrotate", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None, "install logrotate: apt-get install logrotate"

    def turn(writer: Program) -> None:
        command = [program, "--state", str(tmp_path / "state"), str(configuration)]
        with writer.lock:
            subprocess.run(command, check=True, timeout=60)

    run(kavka_broker, fresh_name, tmp_path, 12, turn)
