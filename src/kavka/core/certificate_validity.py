"""The time in which a certificate is valid, and what is to be said of it. Pure."""

from __future__ import annotations

import datetime
from typing import Final, NamedTuple

from kavka.core.distinguished_names import BadCertificate, Element, elements, fields_of

_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_SEQUENCE: Final = 0x30
_SOON_MS: Final = 7 * 24 * 3600 * 1000


class Validity(NamedTuple):
    """The first and the last moment of a certificate, in milliseconds since 1970."""

    begin_ms: int
    end_ms: int

    def fault(self, now_ms: int) -> str | None:
        """Return what is wrong with the certificate now, or will be within a week; None where nothing is."""
        if now_ms < self.begin_ms:
            return f"is not yet valid begin={_text(self.begin_ms)}"
        if now_ms > self.end_ms:
            return f"has expired end={_text(self.end_ms)}"
        if now_ms > self.end_ms - _SOON_MS:
            return f"expires soon end={_text(self.end_ms)}"
        return None


def validity_of(certificate: bytes) -> Validity:
    """Return when a certificate in DER is valid (RFC 5280, 4.1.2.5). Raise BadCertificate."""
    fields = fields_of(certificate)
    if len(fields) < 4 or fields[3].tag != _SEQUENCE:  # serial, algorithm, issuer
        raise BadCertificate("the certificate has no validity")
    times = list(elements(fields[3].content))
    if len(times) != 2:
        raise BadCertificate("the validity of the certificate has no beginning and end")
    return Validity(_ms(times[0]), _ms(times[1]))


def _ms(time: Element) -> int:
    text = time.content.decode("ascii", "replace")
    if time.tag == _UTC_TIME:
        # Years of two digits are those from 1950 to 2049.
        text = ("19" if text[:2] >= "50" else "20") + text
    elif time.tag != _GENERALIZED_TIME:
        raise BadCertificate("a time of the certificate has an unexpected type")
    try:
        found = datetime.datetime.strptime(text, "%Y%m%d%H%M%SZ")
    except ValueError as error:
        raise BadCertificate(f"a time of the certificate cannot be read: {text!r}") from error
    return int(found.replace(tzinfo=datetime.UTC).timestamp() * 1000)


def _text(ms: int) -> str:
    time = datetime.datetime.fromtimestamp(ms // 1000, datetime.UTC)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
