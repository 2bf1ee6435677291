"""One broker for all tests of a file, and a console beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from kavka.testing.local_cluster import LocalCluster
from support.console import Cluster, console


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with LocalCluster(tmp_path_factory.mktemp("broker"), brokers=1) as started:
        yield Cluster(started.bootstrap_servers)


@pytest.fixture(scope="module")
def pages(cluster: Cluster) -> Iterator[TestClient]:
    with console(cluster.bootstrap) as client:
        yield client


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from support.browser import run_chromium

    with run_chromium() as browser:
        yield browser
