"""The option that rewrites the expected text of scenarios."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write what scenarios print into their files"
    )
