"""Tests that take `message_class` and `version` run for every message in every version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from support.wire_values import MESSAGE_VERSIONS, sample, values


@pytest.fixture(scope="session")
def wire_values() -> Callable[[type, int], st.SearchStrategy[Any]]:
    """The strategy of a (class, version)."""
    return values


@pytest.fixture(scope="session")
def wire_sample() -> Callable[[type, int], Any]:
    """One filled object of a (class, version)."""
    return sample


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that take `message_class` and `version` for all of them."""
    if {"message_class", "version"} <= set(metafunc.fixturenames):
        names = [f"{cls.__name__}-{version}" for cls, version in MESSAGE_VERSIONS]
        metafunc.parametrize(("message_class", "version"), MESSAGE_VERSIONS, ids=names)
