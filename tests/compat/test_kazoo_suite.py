"""kazoo's own tests pass against a served registry, but for what it does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka_compat import kazoo_suite

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(300)]

ENSEMBLE = {
    "TestClient::test_update_host_list",
    "TestReconfig::test_add_remove_observer",
    "TestReconfig::test_bad_input",
    "TestReconfig::test_no_super_auth",
}
TLS = {"TestSSLClient::test_create"}
READ_ONLY = {"TestReadOnlyMode::test_read_only"}
"""Stops two of three members and reads from the one that is left."""


def test_kazoos_client_tests_pass(tmp_path: Path) -> None:
    outcomes = kazoo_suite.run(["test_client"], tmp_path)
    failed = {test for test, outcome in outcomes.items() if outcome != "PASSED"}
    assert failed == ENSEMBLE | TLS
    assert len(outcomes) - len(failed) >= 106


def test_kazoos_recipes_pass(tmp_path: Path) -> None:
    modules = "barrier cache counter election lease lock partitioner party queue watchers"
    outcomes = kazoo_suite.run([f"test_{name}" for name in modules.split()], tmp_path)
    assert {test for test, outcome in outcomes.items() if outcome != "PASSED"} == set()
    assert len(outcomes) >= 120


def test_kazoos_connections_are_lost_and_found(tmp_path: Path) -> None:
    outcomes = kazoo_suite.run(["test_connection"], tmp_path)
    failed = {test for test, outcome in outcomes.items() if outcome != "PASSED"}
    assert failed == READ_ONLY
    assert len(outcomes) - len(failed) >= 10
