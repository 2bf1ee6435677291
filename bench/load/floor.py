"""Broker CPU with records of 1 KB, beside a loop in C that makes the same system calls with the same bytes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from apache.perf_tools import PerfTools
from apache.results import print_now
from apache.topics import run_topic

from kavka_compat.brokers import Broker
from load.topics import SIDES, log_files

RECORD_BYTES = 1000
_SOURCE = Path(__file__).with_name("floor.c")
_UNIT = "s per million"


@dataclass
class FloorLine:
    """Processor time of both brokers and of the loop, each sample a round."""

    name: str
    samples: dict[str, list[float]] = field(default_factory=dict)

    def add(self, side: str, value: float) -> None:
        """Keep the sample of a round."""
        self.samples.setdefault(side, []).append(value)

    def as_json(self) -> Mapping[str, object]:
        """Return the line with every sample."""
        return {"name": self.name, "unit": _UNIT, **self.samples}


def compile_loop(directory: Path) -> Path:
    """Compile the loop with the machine's C compiler; return the program. Raise RuntimeError when it cannot."""
    program = directory / "floor"
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("no C compiler was found; install gcc")
    subprocess.run([compiler, "-O2", "-Wall", "-o", program, _SOURCE], check=True)
    return program


def loop_cpu_s(program: Path, mode: str, directory: Path, logs: list[Path]) -> float:
    """Run the loop on the batches of `logs`; return its processor time in seconds. `mode` is produce or consume."""
    directory.mkdir(exist_ok=True)
    command = [str(program), mode, str(directory), *map(str, logs)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    shutil.rmtree(directory)
    return int(said.split()[0]) / 1e9


def measure(
    directory: Path, tools: PerfTools, brokers: dict[str, Broker], records: int, rounds: int
) -> list[FloorLine]:
    """Produce and consume in turns with both brokers, and with the loop on the files that kavka has just written."""
    program = compile_loop(directory)
    lines = {mode: FloorLine(f"{mode} 1 KB") for mode in ("produce", "consume")}
    for number in range(rounds + 1):
        for side in SIDES if number % 2 else reversed(SIDES):
            broker = brokers[side]
            with run_topic(broker, "floor") as topic:
                found = _broker(tools, broker, topic, records)
                if broker.is_kavka:
                    logs = log_files(broker, topic)
                    for mode in lines:
                        used = loop_cpu_s(program, mode, directory / "loop", logs)
                        found[f"loop {mode}"] = used / records * 1_000_000
            shown = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
            kind = f"round {number}" if number else "warm-up"
            print_now(f"CPU of 1 KB, {side}, {kind}: {shown} {_UNIT}")
            if number:
                for mode, line in lines.items():
                    line.add(side, found[mode])
                    if broker.is_kavka:
                        line.add("loop", found[f"loop {mode}"])
    return list(lines.values())


def _broker(tools: PerfTools, broker: Broker, topic: str, records: int) -> dict[str, float]:
    """Return seconds of the broker for a million records, produced and consumed."""
    clock = broker.process.cpu_seconds
    before = clock()
    tools.produce(broker.bootstrap, topic, records, RECORD_BYTES, ("acks=1",))
    produced = clock()
    tools.consume(broker.bootstrap, topic, records)
    million = records / 1_000_000
    return {"produce": (produced - before) / million, "consume": (clock() - produced) / million}
