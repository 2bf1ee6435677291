"""The archive of `kavka spark-package`: executors whose Python has no kavka run with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kavka.cli.main import main
from support.spark.standalone import (
    SPARK_HOME,
    bare_python,
    environment,
    run_standalone,
    unpacked,
)
from support.spark.topic_filling import make_topic

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

RECORDS = 300


def test_the_archive_has_what_is_compiled_and_no_caches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "packed.tar.gz"
    assert main(["spark-package", "--output", str(output)]) == 0
    with tarfile.open(output) as archive:
        names = archive.getnames()
    assert {"kavka/spark/source.py", "pyspark_kavka/__init__.py"} | {
        "pyspark_kavka_iceberg/__init__.py"
    } <= set(names)
    compiled = {name.split("/")[0] for name in names if name.endswith(".so")}
    assert {"crc32c", "cramjam"} <= compiled
    assert not [name for name in names if "__pycache__" in name or name.startswith("..")]
    assert f"--archives {output}#kavka-spark" in capsys.readouterr().out


def test_a_package_that_is_not_installed_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark-package", "--output", os.devnull, "--include", "no-such-package"]) == 1
    assert "no-such-package is not installed" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.compat
@pytest.mark.timeout(300)
def test_executors_without_kavka_run_an_exactly_once_query_with_the_archive(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    python = bare_python(tmp_path / "bare")
    # A Spark session of an earlier test may have put the sources into this process's own PYTHONPATH.
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    absent = subprocess.run(
        [python, "-c", "import kavka"], env=bare, capture_output=True, check=False
    )
    assert b"No module named 'kavka'" in absent.stderr
    output = tmp_path / "kavka-spark.tar.gz"
    assert main(["spark-package", "--output", str(output)]) == 0
    for topic in (fresh_name, f"{fresh_name}-copy"):
        make_topic(kavka_broker, topic, 2)
    producer = Producer({"bootstrap.servers": kavka_broker.bootstrap})
    for number in range(RECORDS):
        producer.produce(fresh_name, str(number), partition=number % 2)
    assert producer.flush(30) == 0
    variables = environment() | {"PYSPARK_PYTHON": str(python)}
    del variables["PYTHONPATH"]
    # The driver has kavka, as from `pip install`; the driver's own workers are of the same bare Python.
    driver = variables | {
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(unpacked(output, tmp_path / "driver")),
    }
    command = [
        str(SPARK_HOME / "bin" / "spark-submit"), "--archives", f"{output}#kavka-spark",
        "--conf", "spark.executorEnv.PYTHONPATH=kavka-spark", "--conf", "spark.ui.enabled=false",
        "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m",
        "--conf", "spark.cores.max=2", "--conf", "spark.executor.cores=1",
        "--conf", f"spark.local.dir={tmp_path / 'local'}",
    ]  # fmt: skip
    job = [str(Path(__file__).with_name("packed_job.py")), kavka_broker.bootstrap, fresh_name]
    with run_standalone(tmp_path / "spark", variables) as cluster:
        ran = subprocess.run(
            [*command, "--master", cluster.url, *job, f"{fresh_name}-copy", str(tmp_path / "c")],
            env=driver,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["copied"] == RECORDS
    for interpreter, kernel in found["seen"]:
        assert interpreter == str(python)
        assert "kavka-spark/kavka/wire" in kernel
        assert str(tmp_path / "spark") in str(Path(kernel).absolute())
