"""Distinguished names of certificates, printed as Java prints them. Pure.

Apache Kafka names the owner of a client certificate `X500Principal.getName()`: RFC 2253 from the last part to the
first, with the short names of that standard and others as OIDs with their bytes: `CN=alice,OU=ops,O=Acme,C=DE`. ACLs
and mapping rules are written for this form, so it is followed to the character.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_SHORT: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_SEQUENCE, _SET, _OID, _VERSION = 0x30, 0x31, 0x06, 0xA0
_EXTENSIONS, _OCTETS = 0xA3, 0x04
_ALTERNATIVE_NAMES: Final = "2.5.29.17"
_TEXTS: Final = frozenset([0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E])
"""Tags of UTF8String, PrintableString, T61String, IA5String, GeneralString and BMPString."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')


class BadCertificate(ValueError):
    """The bytes are not a certificate in DER."""


class Element(NamedTuple):
    """An element of DER: its tag, its content, and all its bytes."""

    tag: int
    content: bytes
    whole: bytes


def elements(data: bytes) -> Iterator[Element]:
    """Yield the elements that follow each other in `data`. Raise BadCertificate."""
    position = 0
    while position < len(data):
        start = position
        if len(data) - position < 2:
            raise BadCertificate("an element of DER ends early")
        tag, length = data[position], data[position + 1]
        position += 2
        if length & 0x80:
            octets = length & 0x7F
            if not 1 <= octets <= 4:
                raise BadCertificate("an element of DER has no definite length below 4 GiB")
            length = int.from_bytes(data[position : position + octets], "big")
            position += octets
        end = position + length
        if end > len(data):
            raise BadCertificate("an element of DER ends early")
        yield Element(tag, data[position:end], data[start:end])
        position = end


def subject_of(certificate: bytes) -> str:
    """Return the distinguished name of the owner of a certificate in DER. Raise BadCertificate."""
    return distinguished_name(encoded_subject(certificate).content)


def encoded_subject(certificate: bytes) -> Element:
    """Return the name of the owner of a certificate in DER, as it stands there. Raise BadCertificate."""
    fields = fields_of(certificate)
    if len(fields) < 5 or fields[4].tag != _SEQUENCE:  # serial, algorithm, issuer, validity
        raise BadCertificate("the certificate has no subject")
    return fields[4]


def alternative_names_of(certificate: bytes) -> frozenset[bytes]:
    """Return the subject alternative names of a certificate in DER, each as it stands there. Raise BadCertificate."""
    for field in fields_of(certificate):
        if field.tag != _EXTENSIONS:
            continue
        for extension in elements(_only(field.content, _SEQUENCE)):
            # Its OID, whether it is critical if it is, and its value.
            parts = list(elements(extension.content))
            if parts and parts[0].tag == _OID and _dotted(parts[0].content) == _ALTERNATIVE_NAMES:
                names = _only(_only(parts[-1].whole, _OCTETS), _SEQUENCE)
                return frozenset(one.whole for one in elements(names))
    return frozenset()


def fields_of(certificate: bytes) -> list[Element]:
    """Return the fields of the signed part of a certificate in DER, without its version. Raise BadCertificate."""
    to_be_signed = next(elements(_only(certificate, _SEQUENCE)), None)
    if to_be_signed is None:
        raise BadCertificate("the certificate is empty")
    return [one for one in elements(to_be_signed.content) if one.tag != _VERSION]


def distinguished_name(name: bytes) -> str:
    """Return the text of a name, given the relative names in it as DER. Raise BadCertificate."""
    relative = ["+".join(map(_attribute, elements(one.content))) for one in elements(name)]
    return ",".join(reversed(relative))


def _only(data: bytes, tag: int) -> bytes:
    found = list(elements(data))
    if len(found) != 1 or found[0].tag != tag:
        raise BadCertificate("the bytes are not one element of DER of the expected type")
    return found[0].content


def _attribute(attribute: Element) -> str:
    parts = list(elements(attribute.content))
    if len(parts) != 2 or parts[0].tag != _OID:
        raise BadCertificate("an attribute of a name has no type and value")
    oid = _dotted(parts[0].content)
    value = parts[1]
    if oid not in _SHORT or value.tag not in _TEXTS:
        return f"{_SHORT.get(oid, oid)}=#{value.whole.hex()}"
    # Whatever the type says, Java takes the bytes for UTF-8.
    return f"{_SHORT[oid]}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    body = text.strip(" \r")
    leading = len(text) - len(text.lstrip(" \r"))
    trailing = len(text) - leading - len(body)
    middle = "".join(
        f"\\{one}" if one in _ESCAPED else "\\00" if one == "\0" else one for one in body
    )
    before, after = text[:leading], text[len(text) - trailing :] if trailing else ""
    return "".join(f"\\{one}" for one in before) + middle + "".join(f"\\{one}" for one in after)


def _dotted(content: bytes) -> str:
    if not content or content[-1] & 0x80:
        raise BadCertificate("an OID ends early")
    numbers: list[int] = []
    number = 0
    for octet in content:
        number = number << 7 | octet & 0x7F
        if not octet & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
