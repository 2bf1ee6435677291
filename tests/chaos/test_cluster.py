"""Chaos on clusters of real processes, by the command that `make chaos-cluster` runs for an hour."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_HERE = Path(__file__).parent

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


def chaos(directory: Path, *options: str) -> str:
    """Run the command and return what it printed; it must end well."""
    paths = [str(_HERE), str(_HERE.parent / "compat"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "kavka_chaos", *options, "--directory", str(directory)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_round_of_chaos_loses_nothing(tmp_path: Path) -> None:
    """Thirty seconds of faults on an ensemble of three, always the same."""
    shown = chaos(
        tmp_path, "--rounds", "1", "--seconds", "30", "--registry", "zookeeper", "--seed", "3368"
    )
    assert "round 1: " in shown
    assert "seed 3368" in shown


@pytest.mark.long
@pytest.mark.parametrize("registry", ["zookeeper", "served"])
@pytest.mark.parametrize("network", ["auto", "proxies"])
def test_rounds_of_chaos_lose_nothing(tmp_path: Path, registry: str, network: str) -> None:
    chaos(tmp_path, "--rounds", "2", "--registry", registry, "--network", network)
