"""Spark's own Kafka connector, as jars from Maven Central: what ours is compared with.

4.3.0 of it is not on Maven Central; 4.2.0 with these companions runs under PySpark 4.3.0.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from kavka_compat.artifacts import user_cache

ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def connector_jars() -> list[Path]:
    """Return the jars, for `spark.jars`; they are fetched once into `~/.cache/kavka/spark-connector`.

    Raise RuntimeError when maven is missing or cannot fetch them.
    """
    directory = user_cache("spark-connector")
    return [fetched_jar(artifact, directory) for artifact in ARTIFACTS]


def fetched_jar(artifact: str, directory: Path) -> Path:
    """Return a jar of Maven Central, fetched once: `group:name:version[:jar:classifier]`. Raise RuntimeError."""
    _, name, version, *kind = artifact.split(":")
    path = directory / f"{'-'.join([name, version, *kind[1:]])}.jar"
    if path.exists():
        return path
    maven = shutil.which("mvn")
    if maven is None:
        raise RuntimeError("maven is missing: install it (Debian: maven)")
    print(f"fetching {artifact} from Maven Central", file=sys.stderr)
    # Into a directory of its own, so that a jar that is there is always whole.
    partial = directory / f"partial-{os.getpid()}"
    command = [maven, "-B", "-q", _GOAL, f"-Dartifact={artifact}", f"-DoutputDirectory={partial}"]
    fetched = subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if fetched.returncode != 0:
        raise RuntimeError(f"mvn could not fetch {artifact}:\n{fetched.stdout}{fetched.stderr}")
    (partial / path.name).replace(path)
    partial.rmdir()
    return path
