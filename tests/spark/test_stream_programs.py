"""The programs of `examples/stream-programs`, the templates `enrichment` and `ranking`, and the page of reprocessing.

One process of pytest runs their tests, so that Spark starts once; after each test librdkafka reads what was written.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shutil import copyfile

import pytest

from kavka.pipelines.project import make_project
from support.spark.standalone import environment

pytestmark = [pytest.mark.spark, pytest.mark.compat, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLE = ROOT / "examples" / "stream-programs"


def project_of_page(directory: Path, steps: str) -> Path:
    """A project without transformations, tested by a file of this folder; it shares the driver of the others."""
    make_project(directory, "ranking", "localhost:9092")
    for path in [*directory.glob("transformations/*"), *directory.glob("tests/test_*")]:
        path.unlink()
    copyfile(HERE / steps, directory / "tests" / f"test_{steps}")
    return directory


def projects(directory: Path) -> list[Path]:
    """Return the projects that are tested."""
    for name in ("enrichment", "ranking"):
        make_project(directory / name, name, "localhost:9092")
    pages = [
        project_of_page(directory / "reprocess", "reprocess_steps.py"),
        project_of_page(directory / "changes", "auto_cdc_steps.py"),
    ]
    return [EXAMPLE, directory / "enrichment", directory / "ranking", *pages]


def test_the_tests_of_templates_examples_and_pages_pass(tmp_path: Path) -> None:
    first, *others = projects(tmp_path)
    variables = {
        **environment(),
        "PAGES": str(ROOT / "docs" / "how-to"),
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    options = [
        *("-p", "support.spark.librdkafka_reads", "-p", "no:cacheprovider", "--durations=8"),
        *(str(project / "tests") for project in others),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "kavka", "pipelines", "test", str(first)]
        + [f"--pytest={option}" for option in options],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 6 passed" in done.stdout
