"""librdkafka's own tests of TLS, SASL and ACLs pass against three brokers of ours, each kind of listener by itself.

The sources are fetched from Debian and built once, by the machine's compiler (`make librdkafka-tests TESTS=security`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka_compat import librdkafka, librdkafka_security

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(1800)]

PROFILES = {
    "acls": {"0081", "0109", "0115", "0119"},
    "ssl": {"0097"},
    "ssl-requested": {"0097"},
    "plain": {"0135", "0142"},
    "scram-256": {"0081", "0097", "0135", "0142"},
    "scram-512": {"0135", "0142"},
    "unsecured": {"0142"},
    "oidc": {"0126", "0142"},
}
"""The tests of each kind of listener, by number."""
LACKING = {"ssl": set(librdkafka_security.LACKING)}
PLACE = "Expected _SSL or _ALL_BROKERS_DOWN error codes, got: Local: Broker transport failure"
"""The message of those, as at Apache Kafka 3.9."""


@pytest.fixture(scope="module")
def source() -> Path:
    """The built sources, once fetched; without a compiler or Debian's archive the tests fail and say so."""
    found = librdkafka.fetch("sid").resolve()
    librdkafka.build(found)
    return found


@pytest.mark.parametrize("profile", PROFILES)
def test_librdkafkas_tests_of_security_pass(tmp_path: Path, source: Path, profile: str) -> None:
    outcomes = librdkafka_security.run(source, tmp_path / "logs", [profile])
    expected = LACKING.get(profile, set())
    passed = {each.name[:4] for each in outcomes if each.state == "PASSED"}
    failed = [each for each in outcomes if each.state not in ("PASSED", "SKIPPED")]
    numbers = {each.name[:4] for each in failed}
    assert numbers == expected, [(each.state, str(each), each.log) for each in failed]
    assert all(PLACE in each.log.read_text(errors="replace") for each in failed)
    assert passed - numbers == PROFILES[profile] - expected
