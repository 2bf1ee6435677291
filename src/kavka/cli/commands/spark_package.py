"""`kavka spark-package`: pack kavka and what it needs for the workers of a Spark cluster."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Write the archive and say how it is used; 1 when something is missing or cannot be written."""
    parser = argparse.ArgumentParser(
        prog="kavka spark-package",
        description="Pack kavka and what it needs for the workers of a Spark cluster, which must have the same release "
        "of Python on the same kind of machine.",
    )
    parser.add_argument("--output", type=Path, default=Path("kavka-spark.tar.gz"), metavar="FILE")
    parser.add_argument(
        "--include",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="an installed package to pack with what it needs: pyarrow and pandas, if the workers' Python lacks them",
    )
    given = parser.parse_args(arguments)
    from kavka.spark.worker_archive import CannotPack, pack

    try:
        packed = pack(given.output, given.include)
    except (CannotPack, OSError) as error:
        print(f"kavka spark-package: {error}", file=sys.stderr)
        return 1
    size = given.output.stat().st_size / 1e6
    version = ".".join(map(str, sys.version_info[:2]))
    print(
        f"{given.output}: {', '.join(packed)} for Python {version} on {sys.platform}, {size:.1f} MB"
    )
    print(
        f"spark-submit --archives {given.output}#kavka-spark --conf spark.executorEnv.PYTHONPATH=kavka-spark job.py"
    )
    return 0
