"""Programs in other languages that use a client step by step: built, run against brokers of ours, and judged."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kavka_compat.artifacts import cache_directory, fetch_once
from kavka_compat.killable import run_killable


def build_go(source: Path, name: str) -> Path:
    """Compile the module in `source`, whose own modules come from the module proxy once. Skip the test without Go."""
    go = _tool("go", name)
    target = cache_directory(name)
    target.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false"}
    _finish([go, "build", "-o", str(target / name), "."], source, environment)
    return target / name


def install_node(source: Path, name: str) -> list[str]:
    """Return the command of the program in `source`; its packages come from npm once. Skip the test without node."""
    node, npm = _tool("node", name), _tool("npm", name)
    target = cache_directory(name)

    def fetch() -> None:
        target.mkdir(parents=True, exist_ok=True)
        for part in ("package.json", "package-lock.json"):
            shutil.copy(source / part, target)
        _finish([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], target, os.environ)

    fetch_once(target, (source / "package-lock.json").read_bytes(), fetch)
    # Node looks for packages beside the program, which must not be written into the source tree.
    shutil.copy(source / "main.mjs", target)
    return [node, str(target / "main.mjs")]


def insist_all_is_well(
    command: Sequence[str | Path], brokers: int, directory: Path, *more: str
) -> None:
    """Run a program against so many brokers of ours: its arguments are their addresses and `more`."""
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": str(brokers),
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": str(brokers),
        "transaction.state.log.min.isr": str(min(2, brokers)),
    }
    with run_killable(directory, brokers, settings) as cluster:
        done = subprocess.run(
            [*command, cluster.bootstrap, *more],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.endswith("all is well\n"), done.stdout


def _tool(tool: str, name: str) -> str:
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{name} needs `{tool}`, which is not in the PATH")
    return found


def _finish(command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
