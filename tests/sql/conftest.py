"""One broker for all tests of a file, and sessions with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kavka.sql.session import Session, SessionOptions
from kavka.sql.value_formats import FormatOptions
from kavka.testing.local_cluster import LocalCluster
from support.sql_place import Open, Place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with LocalCluster(tmp_path_factory.mktemp("broker"), brokers=1) as cluster:
        yield Place(cluster.bootstrap_servers)


@pytest.fixture
def open_session(place: Place) -> Iterator[Open]:
    """Open a session: arguments are those of `SessionOptions`, `formats` those of `FormatOptions`."""
    with ExitStack() as stack:

        def open_(
            formats: dict[str, Any] | None = None,
            settings: dict[str, Any] | None = None,
            **options: Any,
        ) -> Session:
            chosen = SessionOptions(
                place.settings | (settings or {}), FormatOptions(**(formats or {})), **options
            )
            return stack.enter_context(Session(chosen))

        yield open_
