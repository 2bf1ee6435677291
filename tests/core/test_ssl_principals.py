"""Distinguished names are printed as Java prints them, and rules make names of principals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.core.distinguished_names import (
    BadCertificate,
    alternative_names_of,
    distinguished_name,
    subject_of,
)
from kavka.core.ssl_principals import BadMappingRules, NoMatchingRule, SslPrincipalMapper


def der(tag: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([tag, len(content)]) + content


def attribute(oid: str, text: str, tag: int = 0x0C, encoding: str = "utf-8") -> bytes:
    return der(0x30, der(0x06, bytes.fromhex(oid)) + der(tag, text.encode(encoding)))


CN, OU, O, C = "550403", "55040b", "55040a", "550406"  # noqa: E741
EMAIL, UID, DC = "2a864886f70d010901", "0992268993f22c640101", "0992268993f22c640119"


def name(*relative: bytes) -> str:
    return distinguished_name(b"".join(der(0x31, one) for one in relative))


def test_the_last_part_comes_first_with_the_short_names_of_rfc_2253() -> None:
    parts = [attribute(C, "DE", 0x13), attribute(O, "Acme"), attribute(OU, "ops"), attribute(CN, "alice")]  # fmt: skip
    assert name(*parts) == "CN=alice,OU=ops,O=Acme,C=DE"
    assert name(attribute(DC, "org"), attribute(UID, "7")) == "UID=7,DC=org"


def test_other_types_are_oids_with_their_bytes() -> None:
    shown = name(attribute(EMAIL, "a@b.c", 0x16))
    assert shown == "1.2.840.113549.1.9.1=#160561406" + "22e63"


def test_parts_of_one_relative_name_are_joined() -> None:
    assert name(attribute(CN, "a") + attribute(OU, "b")) == "CN=a+OU=b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a,b=c", r"a\,b\=c"),
        ('"<>;#+\\', r"\"\<\>\;\#\+" + "\\\\"),
        (" a ", r"\ a\ "),
        ("a b", "a b"),
        ("a\0", r"a\00"),
        ("Ünal 東京", "Ünal 東京"),
        ("", ""),
        ("  ", r"\ \ "),
    ],
)
def test_special_characters_are_escaped(text: str, shown: str) -> None:
    assert name(attribute(CN, text)) == f"CN={shown}"


def test_texts_of_older_types_are_taken_for_utf_8_as_java_does() -> None:
    assert name(attribute(CN, "Jörg", 0x14)) == "CN=Jörg"
    assert name(attribute(CN, "Jörg", 0x14, "latin-1")) == "CN=J\ufffdrg"
    assert name(attribute(CN, "Jo", 0x1E, "utf-16-be")) == r"CN=\00J\00o"


@given(st.binary(max_size=200))
def test_bytes_that_are_no_certificate_are_refused(data: bytes) -> None:
    with pytest.raises(BadCertificate):
        subject_of(data)
    with pytest.raises(BadCertificate):
        alternative_names_of(data)


DN = "CN=kafka-user,OU=ServiceUsers,O=Unknown,C=DE"


@pytest.mark.parametrize(
    ("rules", "shown"),
    [
        ("DEFAULT", DN),
        ("", DN),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "kafka-user"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1@acme/U", "KAFKA-USER@ACME"),
        ("RULE:^.*C=(.*?)$/$1/L", "de"),
        ("RULE:^CN=(.*?),OU=Nobody.*$/$1/ , RULE:^CN=(.*?), *OU=(.*?),.*$/$2.$1/", "ServiceUsers.kafka-user"),
        ("RULE:^CN=(.*?),.*$/\\/$1\\/$7/,DEFAULT", "/kafka-user/$7"),
        ("RULE:^CN=x$/x/,DEFAULT", DN),
    ],
)  # fmt: skip
def test_the_first_rule_that_fits_gives_the_name(rules: str, shown: str) -> None:
    assert SslPrincipalMapper(rules).name(DN) == shown


def test_a_name_that_no_rule_fits_has_no_principal() -> None:
    with pytest.raises(NoMatchingRule, match="kafka-user"):
        SslPrincipalMapper("RULE:^CN=x$/x/").name(DN)


@pytest.mark.parametrize("rules", ["RULE:a", "RULE:a/b", "default", "DEFAULT DEFAULT", "RULE:(/x/"])
def test_rules_that_are_none_are_refused(rules: str) -> None:
    with pytest.raises(BadMappingRules):
        SslPrincipalMapper(rules)
