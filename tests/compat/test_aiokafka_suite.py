"""aiokafka's own tests pass against our broker: those of SASL and ACLs by each mechanism, with TLS and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka_compat import aiokafka_suite

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]

OF_OLD_BROKERS = {"test_sasl.py::TestKafkaSASL::test_sasl_unknown_topic_describe"}
"""Of brokers before 1.0, which had another error for topics that a client may not see."""

OTHERS = (
    *("admin", "client", "consumer", "coordinator", "fetcher", "pep492", "producer", "sender"),
    *("transactional_consumer", "transactional_producer"),
)


@pytest.mark.parametrize(
    ("transport", "mechanism"),
    [
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SASL_SSL", "OAUTHBEARER"),
    ],
)
def test_aiokafkas_tests_of_sasl_pass(tmp_path: Path, transport: str, mechanism: str) -> None:
    outcomes = aiokafka_suite.run(tmp_path, transport, mechanism)
    passed = {test for test, outcome in outcomes.items() if outcome == "PASSED"}
    assert outcomes.keys() - passed == OF_OLD_BROKERS
    assert len(passed) >= 17


def test_aiokafkas_other_tests_with_a_broker_pass(tmp_path: Path) -> None:
    outcomes = aiokafka_suite.run(tmp_path, modules=OTHERS)
    assert {test for test, outcome in outcomes.items() if outcome != "PASSED"} == set()
    assert len(outcomes) >= 200
