"""Unit tests are collected without Spark and without the libraries of other projects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKER = """
import sys

MISSING = {
    "aiokafka", "confluent_kafka", "kafka", "kazoo", "lz4", "mkdocs", "numpy", "pandas", "pyspark",
    "snappy",
}


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"{name} is not installed", name=name)


sys.meta_path.insert(0, Missing())
"""


@pytest.mark.slow
def test_unit_tests_are_collected_without_spark_and_other_clients(tmp_path: Path) -> None:
    (tmp_path / "blocker.py").write_text(BLOCKER)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "blocker", "--unit", "--collect-only", "-qq"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    folders = {line.split("/")[1] for line in done.stdout.splitlines() if line.count("/") > 1}
    assert folders >= {"broker", "client", "cluster", "core", "storage", "wire"}
    assert not folders & {"compat", "libraries", "spark"}
