"""Spark's JVMs start and run short tests in a third of the processor time: one compiler, one collector, an archive.

`python -m support.spark.quick_start` makes the archive of classes once for a checkout and its Spark; without it the
other options still halve the time.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path

from kavka.spark.class_archive import ClassArchive, spark_jars
from kavka.spark.session import SHORT_LIVED_JVM
from kavka_compat.artifacts import java

VARIABLE = "SPARK_SUBMIT_OPTS"
_ROOT = Path(__file__).resolve().parents[3]
_END_S = 600
_NO_UI = "-Dspark.ui.enabled=false"
"""Programs of pages and examples say nothing about the web server of the driver, which starts for a second."""


def archive() -> ClassArchive:
    """Return the archive of the classes of this environment's Spark."""
    jars = spark_jars()
    assert jars is not None
    return ClassArchive(_ROOT / ".setup", Path(java()), jars)


def options() -> str:
    """Return the options with which drivers start in this environment."""
    return " ".join([SHORT_LIVED_JVM, _NO_UI, *archive().reading()])


def make() -> None:
    """Run a pipeline that loads most of what tests load: Connect, Hive's catalogue, streams, sources in Python."""
    from pyspark import SparkContext

    from kavka.cli.main import main
    from kavka.testing.local_cluster import LocalCluster

    logging.getLogger("kavka").setLevel(logging.ERROR)  # of a broker that is left behind
    made = archive()
    os.environ[VARIABLE] = " ".join([SHORT_LIVED_JVM, *made.making()])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as place, chdir(place):
        with LocalCluster(Path(place) / "broker", brokers=1) as cluster:
            brokers = ("--bootstrap-server", cluster.bootstrap_servers)
            for topic in ("warm-events", "warm-alerts"):
                main(["topics", *brokers, "--create", "--topic", topic])
            main(["pipelines", "init", "warm", *brokers])
            with chdir("warm"):
                code = main(["pipelines", "run"])
        jvm = SparkContext._gateway.proc
        jvm.stdin.close()
        jvm.wait(_END_S)
    made.made(is_good=code == 0)
    if not made.is_made:
        raise SystemExit("quick_start: Spark left no archive of its classes")


if __name__ == "__main__":
    if not archive().is_made:
        print("setup: making an archive of Spark's classes (half a minute)", flush=True)
        with (_ROOT / ".setup" / "quick-start.log").open("w") as log, redirect_stdout(log):
            make()
