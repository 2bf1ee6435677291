"""One Spark session for all tests of this folder, with Spark's own Kafka connector: a session costs six seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kavka.spark.session import local_session

sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the exactly-once sink on Apache Kafka's broker to `make long`."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if item.path.name == "test_exactly_once.py" and parameters.get("any_broker") == "apache":
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two slots."""
    from spark_connector import connector_jars

    jars = ",".join(str(path) for path in connector_jars())
    directory = tmp_path_factory.mktemp("spark")
    # Tests provoke failures of queries, which Spark logs as errors.
    session = local_session(
        "tests", directory, settings={"spark.jars": jars}, log_level="off", short_lived=True
    )
    yield session
    session.stop()
