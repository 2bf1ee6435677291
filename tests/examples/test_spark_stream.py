"""The stream of examples/spark-stream counts the words of a topic."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kavka.client.blocking import Producer
from kavka_compat.ours import run_kavka

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "spark-stream" / "count_words.py"


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_words_are_counted(tmp_path: Path) -> None:
    with run_kavka(tmp_path / "broker") as broker:
        with Producer({"bootstrap.servers": broker.bootstrap}) as producer:
            producer.send("lines", b"to be or not to be")
        printed = subprocess.run(
            [sys.executable, str(PROGRAM)],
            cwd=tmp_path,
            env={
                **os.environ,
                "KAVKA_BOOTSTRAP_SERVERS": broker.bootstrap,
                "PYSPARK_PYTHON": sys.executable,
            },
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout.split() == ["be", "2", "to", "2", "not", "1", "or", "1"]


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(240)
def test_the_test_of_a_spark_application_passes(tmp_path: Path) -> None:
    test = PROGRAM.parents[1] / "testing-other-clients" / "test_pyspark.py"
    alone = ["-q", "-p", "no:cacheprovider", "-p", "kavka.testing.plugin", "-c", os.devnull]
    printed = subprocess.run(
        [sys.executable, "-m", "pytest", *alone, str(test)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert printed.returncode == 0, printed.stdout + printed.stderr
    assert "1 passed" in printed.stdout
