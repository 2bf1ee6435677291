"""Spark 4.1 with Iceberg's own jar, in an environment of its own: there is no such jar for Spark 4.3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

from kavka_compat.artifacts import user_cache
from support.spark.spark_connector import fetched_jar

ARTIFACT = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
_PYSPARK = "pyspark==4.1.4"
_READ = """
import json, sys
from pyspark.sql import SparkSession

jar, path, query = sys.argv[1:]
session = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", jar)
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
session.read.format("iceberg").load(path).createOrReplaceTempView("rows")
for name in ("files", "snapshots", "partitions"):
    session.read.format("iceberg").load(f"{path}#{name}").createOrReplaceTempView(name)
found = [row.asDict(recursive=True) for row in session.sql(query).collect()]
print("FOUND " + json.dumps(found, default=str))
session.stop()
"""


def spark_4_1() -> Path:
    """Return the Python of an environment with Spark 4.1, made once in `~/.cache/kavka`."""
    directory = user_cache("spark-4.1")
    python = directory / "bin" / "python"
    ready = directory / "ready"
    if not ready.exists():
        venv.create(directory, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", _PYSPARK], check=True)
        ready.touch()
    return python


def query(metadata: str, sql: str) -> list[dict[str, Any]]:
    """Run SQL over a table, by the file of its metadata; its views are rows, files, snapshots and partitions."""
    jar = fetched_jar(ARTIFACT, user_cache("iceberg"))
    inherited = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    inherited.pop("PYTHONPATH", None)
    done = subprocess.run(
        [spark_4_1(), "-c", _READ, str(jar), metadata, sql],
        env={**inherited, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(spark_4_1())},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    lines = [one for one in done.stdout.splitlines() if one.startswith("FOUND ")]
    assert lines, done.stderr[-3000:]
    print(lines[0], file=sys.stderr)
    found: list[dict[str, Any]] = json.loads(lines[0].removeprefix("FOUND "))
    return found
