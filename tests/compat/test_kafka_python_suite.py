"""kafka-python's own integration tests pass against our broker, those of SASL and TLS, and the others over SASL_SSL."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka_compat import kafka_python_suite

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(1800)]


def test_kafka_pythons_tests_of_sasl_and_tls_pass(tmp_path: Path) -> None:
    outcomes = kafka_python_suite.run(["sasl", "ssl"], tmp_path)
    assert {test for test, outcome in outcomes.items() if outcome != "PASSED"} == set()
    assert len(outcomes) >= 11


def test_kafka_pythons_other_tests_pass_over_sasl_ssl(tmp_path: Path) -> None:
    modules = ["admin", "consumer", "producer"]
    outcomes = kafka_python_suite.run(modules, tmp_path, "SASL_SSL", "SCRAM-SHA-512")
    assert {test for test, outcome in outcomes.items() if outcome != "PASSED"} == set()
    assert len(outcomes) >= 50
