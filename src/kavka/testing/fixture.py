"""The pytest fixture `kavka_cluster`: three brokers in this process, which a test may kill, pause and cut off.

pytest_plugins = ["kavka.testing.fixture"]

@pytest.mark.kavka_cluster(brokers=3, settings={"min.insync.replicas": "2"})   # optional
def test_nothing_is_lost(kavka_cluster): ...
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kavka.testing.local_cluster import LocalCluster


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    line = "kavka_cluster(brokers=3, settings=None): what the fixture kavka_cluster starts"
    config.addinivalue_line("markers", line)


@pytest.fixture
def kavka_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalCluster]:
    """Start a cluster for one test, and end it."""
    from kavka.testing.local_cluster import LocalCluster  # loaded only by those who use it

    marker = request.node.get_closest_marker("kavka_cluster")
    options = {} if marker is None else dict(marker.kwargs)
    with LocalCluster(tmp_path, **options) as cluster:
        yield cluster
