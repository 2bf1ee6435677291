"""Chaos on clusters of real processes, by the command that `make chaos-cluster` runs for an hour."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kavka_chaos.schedule import KINDS

_HERE = Path(__file__).parent

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


def chaos(directory: Path, *options: str) -> str:
    """Run the command and return what it printed; it must end well."""
    paths = [
        str(_HERE),
        str(_HERE.parent),
        str(_HERE.parent / "compat"),
        os.environ.get("PYTHONPATH", ""),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "kavka_chaos", *options, "--directory", str(directory)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_rounds_with_every_kind_of_fault_lose_nothing(tmp_path: Path) -> None:
    """A minute of faults on an ensemble of three, always the same: `--schedule` with this seed shows them.

    Each kind comes once at least, in namespaces as with proxies, which cannot fill a disk.
    """
    length = ("--rounds", "2", "--seconds", "30")
    shown = chaos(tmp_path, *length, "--registry", "zookeeper", "--seed", "105348")
    assert "round 2: " in shown
    found = set(re.findall(r"^ {4} *[\d.]+ to +[\d.]+ s  (.+?), (?=broker|registry)", shown, re.M))
    can_fill = "no namespaces" not in shown
    assert found == {kind.name for kind in KINDS if can_fill or not kind.needs_disk}


@pytest.mark.long
@pytest.mark.parametrize("registry", ["zookeeper", "served"])
@pytest.mark.parametrize("network", ["auto", "proxies"])
def test_rounds_of_chaos_lose_nothing(tmp_path: Path, registry: str, network: str) -> None:
    chaos(tmp_path, "--rounds", "2", "--registry", registry, "--network", network)


@pytest.mark.long
def test_rounds_of_chaos_lose_nothing_of_our_own_clients(tmp_path: Path) -> None:
    chaos(tmp_path, "--rounds", "2", "--registry", "served", "--client", "kavka")


@pytest.mark.long
@pytest.mark.parametrize("client", ["confluent", "kavka"])
def test_rounds_of_chaos_with_security_lose_nothing(tmp_path: Path, client: str) -> None:
    """Over SASL_SSL with ACLs, while certificates are renewed and credentials and ACLs change."""
    length = ("--rounds", "2", "--seconds", "40", "--client", client)
    shown = chaos(tmp_path, *length, "--registry", "served", "--security")
    found = re.findall(r"([a-zA-Z ]+): (\d+)(?=,|$)", shown, re.M)
    counts = {name.strip(): int(count) for name, count in found}
    for change in (
        "certificates renewed",
        "credentials made again",
        "passwords changed and changed back",
        "ACLs replaced",
        "other ACLs added and removed",
    ):
        assert counts[change] > 0, shown
