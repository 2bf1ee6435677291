"""The validity of certificates is read from their DER, and what is to be said of it follows."""

from __future__ import annotations

import datetime

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from kavka.core.certificate_validity import Validity, validity_of
from kavka.core.distinguished_names import BadCertificate
from support.certificates import Authority

_DAY_MS = 24 * 3600 * 1000


@pytest.mark.parametrize("years", [1, 40])  # after 2049 times are of another type
def test_the_validity_is_that_of_the_certificate(years: int) -> None:
    signed = Authority().sign("owner", begin=-365 * 60, end=365 * years).chain[0]
    found = validity_of(signed.public_bytes(Encoding.DER))
    times = (signed.not_valid_before_utc, signed.not_valid_after_utc)
    assert found == Validity(*(int(time.timestamp() * 1000) for time in times))


def test_what_is_no_time_is_refused() -> None:
    certificate = Authority().certificate
    der = certificate.public_bytes(Encoding.DER)
    time = certificate.not_valid_after_utc.astimezone(datetime.UTC).strftime("%y%m%d%H%M%SZ")
    with pytest.raises(BadCertificate, match=r"cannot be read: '20..1332"):
        validity_of(der.replace(time.encode(), time[:2].encode() + b"1332" + time[6:].encode()))
    with pytest.raises(BadCertificate):
        validity_of(b"\x30\x00")


def test_a_certificate_has_no_fault_until_a_week_before_its_end() -> None:
    validity = Validity(0, 30 * _DAY_MS)
    assert validity.fault(-1) == "is not yet valid begin=1970-01-01T00:00:00Z"
    assert validity.fault(23 * _DAY_MS) is None
    assert validity.fault(23 * _DAY_MS + 1) == "expires soon end=1970-01-31T00:00:00Z"
    assert validity.fault(30 * _DAY_MS + 1) == "has expired end=1970-01-31T00:00:00Z"
