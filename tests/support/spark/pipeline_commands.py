"""Commands that run a pipeline's project in a process of their own: ours, and Spark's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kavka.spark.session import SHORT_LIVED_JVM
from support.spark.standalone import environment

QUICK = f"spark.driver.extraJavaOptions={SHORT_LIVED_JVM}"


@contextmanager
def run_process(
    project: Path,
    *arguments: str,
    master: str = "local[2]",
    remote: str = "",
    variables: dict[str, str] | None = None,
    new_group: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `kavka pipelines run` in a process of its own, which is killed if the body leaves it.

    What it prints is in `run.log` of the project. With `new_group` it leads a group of processes;
    `remote`, a server of Spark Connect, takes the place of the master.
    """
    command = [sys.executable, "-m", "kavka", "pipelines", "run", "--project", str(project)]
    spark = ["--remote", remote] if remote else ["--master", master, "--conf", QUICK]
    with (project / "run.log").open("a") as log:
        process = subprocess.Popen(
            [*command, *spark, *arguments],
            env=variables or environment(),
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0 if new_group else None,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def run_stock(project: Path) -> None:
    """Run Spark's own `spark-pipelines run` with the project's settings to its end."""
    program = Path(sys.executable).with_name("spark-pipelines")
    ran = subprocess.run(
        [program, "run", "--properties-file", "spark-defaults.conf"],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
