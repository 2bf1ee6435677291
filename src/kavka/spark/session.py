"""A Spark session on this machine, set up so that Python workers are found and the log is quiet."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REQUIRED_JAVA = 17
_SOURCES = Path(__file__).resolve().parents[2]
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""Compiles quickly, not well: half the processor time of what lives for a minute or two. Without the size this compiler
has a fifth of the usual room, which Spark fills in a minute; then nothing more is compiled."""
_QUIET = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex{{short}}
"""


class SparkMissing(Exception):
    """A requirement of Spark is not installed; the message says what to install."""


def check_spark() -> None:
    """Raise SparkMissing unless PySpark with its companions and a Java that runs it are installed."""
    for package in ("pyspark", "pyarrow", "pandas"):
        if find_spec(package) is None:
            raise SparkMissing(
                f"{package} is missing: install it with `pip install 'kavka[spark]'`"
            )
    version = _java_version()
    if version is None:
        raise SparkMissing(
            "Spark needs Java 17: install a JDK 17 (Debian: openjdk-17-jre-headless)"
        )
    if version < _REQUIRED_JAVA:
        raise SparkMissing(f"Spark needs Java 17 or later, and `java` is {version}: set JAVA_HOME")


def _java_version() -> int | None:
    """Return the feature release of the Java that Spark would start, or None when there is none."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        return None
    try:
        completed = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', completed.stderr + completed.stdout)
    return int(match[1]) if match else None


def local_session(
    name: str,
    directory: Path,
    master: str = "local[2]",
    settings: Mapping[str, str] | None = None,
    log_level: str = "error",
    short_lived: bool = False,
) -> SparkSession:
    """Start a session with all its files below `directory`, in UTC, without the web UI.

    Python workers run this interpreter with this package on their path. Everything binds to 127.0.0.1. `short_lived`
    lets the JVM compile quickly instead of well, which is faster for the first minutes. Raise SparkMissing.
    """
    check_spark()
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    put_sources_on_path()
    jvm = log_settings(directory, log_level)
    builder = SparkSession.builder.master(master).appName(name)
    defaults = _defaults(directory, f"{jvm} {SHORT_LIVED_JVM if short_lived else ''}")
    for key, value in (defaults | dict(settings or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def put_sources_on_path() -> None:
    """Make this package importable for Python workers when it runs from a source tree that is not installed."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(_SOURCES) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(_SOURCES), *filter(None, paths)])


def log_settings(directory: Path, level: str) -> str:
    """Write the log's configuration into `directory` and return the option of the JVM that takes it."""
    directory.mkdir(parents=True, exist_ok=True)
    logging = directory / "log4j2.properties"
    logging.write_text(_QUIET.format(level=level))
    return f"-Dlog4j2.configurationFile=file:{logging}"


@contextmanager
def standard_error_into(path: Path) -> Iterator[None]:
    """Send standard error into a file, also that of new children: the JVM keeps it for its life."""
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _defaults(directory: Path, jvm: str) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={directory} {jvm}",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    }
