"""One Spark session for all tests of this folder: a session costs six seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kavka.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two slots."""
    session = local_session("tests", tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
