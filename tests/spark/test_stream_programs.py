"""The programs of `examples/stream-programs`, templates `enrichment` and `ranking`, pages on reprocessing and tables.

One process of pytest runs their tests, so that Spark starts once; after each test librdkafka reads what was written.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shutil import copyfile

import pytest

from kavka.pipelines.project import make_project
from kavka_compat.artifacts import user_cache
from support.spark.spark_connector import fetched_jar
from support.spark.standalone import environment

pytestmark = [pytest.mark.spark, pytest.mark.compat, pytest.mark.timeout(1200)]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLE = ROOT / "examples" / "stream-programs"
MERGE_JAR = "org.apache.spark:spark-catalyst_2.13:4.2.0:jar:tests"
"""Maven Central has none of 4.3."""
MERGE_CATALOG = (
    "org.apache.spark.sql.connector.catalog.SharedTablesInMemoryRowLevelOperationTableCatalog"
)


def project_of_page(directory: Path, steps: str) -> Path:
    """A project without transformations, tested by a file of this folder; it shares the driver of the others."""
    make_project(directory, "ranking", "localhost:9092")
    for path in [*directory.glob("transformations/*"), *directory.glob("tests/test_*")]:
        path.unlink()
    copyfile(HERE / steps, directory / "tests" / f"test_{steps}")
    return directory


def page_projects(directory: Path) -> list[Path]:
    """Make the projects of the pages about reprocessing and about changes into tables."""
    changes = project_of_page(directory / "changes", "auto_cdc_steps.py")
    # Other settings than those of the others: Spark starts again in the process.
    (changes / "tests" / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions  2\n")
    return [project_of_page(directory / "reprocess", "reprocess_steps.py"), changes]


def project_with_merge(directory: Path) -> Path:
    """A project whose tables are in the catalogue with which Spark tests MERGE; it has a driver of its own."""
    project_of_page(directory, "auto_cdc_merge_steps.py")
    jar = fetched_jar(MERGE_JAR, user_cache("spark-tests"))
    with (directory / "tests" / "spark-defaults.conf").open("a") as settings:
        settings.write(f"spark.jars {jar}\nspark.driver.extraClassPath {jar}\n")
        settings.write(f"spark.sql.catalog.merging {MERGE_CATALOG}\n")
    with (directory / "spark-pipeline.yml").open("a") as specification:
        specification.write("catalog: merging\ndatabase: shop\n")
    return directory


def template_projects(directory: Path) -> list[Path]:
    """Make projects from the templates."""
    names = ("enrichment", "ranking")
    for name in names:
        make_project(directory / name, name, "localhost:9092")
    return [directory / name for name in names]


def project_of_newest_score(directory: Path) -> Path:
    """Make a project from the template `ranking`, with a further test and no other; the folder names its topics."""
    make_project(directory, "ranking", "localhost:9092")
    for path in directory.glob("tests/test_*"):
        path.unlink()
    copyfile(HERE / "newest_score_steps.py", directory / "tests" / "test_newest_score.py")
    return directory


def run_tests(first: Path, *others: Path | str) -> str:
    """Run the tests of projects, and more options of pytest, in one process; return what it prints."""
    variables = {
        **environment(),
        "PAGES": str(ROOT / "docs" / "how-to"),
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    more = [str(one / "tests") if isinstance(one, Path) else one for one in others]
    more += ["-p", "support.spark.librdkafka_reads", "-p", "no:cacheprovider", "--durations=8"]
    done = subprocess.run(
        [sys.executable, "-m", "kavka", "pipelines", "test", str(first)]
        + [f"--pytest={option}" for option in more],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=1100,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_tests_of_templates_and_programs_pass(tmp_path: Path) -> None:
    said = run_tests(EXAMPLE, *template_projects(tmp_path), "-k", "not continues_from_the_state")
    assert " 3 passed, 1 deselected" in said


@pytest.mark.long
def test_state_goes_on_and_the_pages_are_right(tmp_path: Path) -> None:
    score = project_of_newest_score(tmp_path / "ranking")
    said = run_tests(EXAMPLE, score, *page_projects(tmp_path), "-k", "not plain_computation")
    assert " 4 passed, 1 deselected" in said


@pytest.mark.long
def test_changes_are_merged_where_a_catalogue_can(tmp_path: Path) -> None:
    assert " 1 passed" in run_tests(project_with_merge(tmp_path / "merged"))
