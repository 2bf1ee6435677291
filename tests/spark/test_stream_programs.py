"""The programs of `examples/stream-programs`, the templates `enrichment` and `ranking`, and the page of reprocessing.

One process of pytest runs their tests, so that Spark starts once; after each test librdkafka reads what was written.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kavka.pipelines.project import make_project
from support.spark.standalone import environment

pytestmark = [pytest.mark.spark, pytest.mark.compat, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLE = ROOT / "examples" / "stream-programs"


def bare_project(directory: Path) -> Path:
    """A project without transformations, whose tests share the driver of the others."""
    make_project(directory, "ranking", "localhost:9092")
    for path in [*directory.glob("transformations/*"), *directory.glob("tests/test_*")]:
        path.unlink()
    return directory


def test_the_tests_of_templates_examples_and_pages_pass(tmp_path: Path) -> None:
    for name in ("enrichment", "ranking"):
        make_project(tmp_path / name, name, "localhost:9092")
    variables = {
        **environment(),
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "REPROCESS_PROJECT": str(bare_project(tmp_path / "reprocess")),
        "AUTO_CDC_PROJECT": str(bare_project(tmp_path / "auto-cdc")),
    }
    more = [
        "-p",
        "support.spark.librdkafka_reads",
        "-p",
        "no:cacheprovider",
        "--durations=8",
        *[tmp_path / name / "tests" for name in ("enrichment", "ranking")],
        HERE / "reprocess_steps.py",
        HERE / "auto_cdc_steps.py",
    ]
    options = [f"--pytest={option}" for option in more]
    done = subprocess.run(
        [sys.executable, "-m", "kavka", "pipelines", "test", EXAMPLE, *options],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 6 passed" in done.stdout
