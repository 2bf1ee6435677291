"""The users of Kerberos principals: Kafka's rules, as a table and as properties."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.core.sasl.kerberos_names import NoUser, PrincipalRules, RuleError
from support.examples import examples

REALM = "EXAMPLE.COM"
_WORDS = st.text("abcXYZ019-_. $\\", min_size=1, max_size=8)


def user(principal: str, *rules: str, realm: str = REALM) -> str:
    return PrincipalRules(rules or ["DEFAULT"], realm).user_of(principal)


@pytest.mark.parametrize(
    ("principal", "rules", "expected"),
    [
        ("alice@EXAMPLE.COM", ["DEFAULT"], "alice"),
        ("kafka/node1@EXAMPLE.COM", ["DEFAULT"], "kafka"),
        ("alice@EXAMPLE.COM", ["RULE:[1:$1]"], "alice"),
        ("alice@EXAMPLE.COM", ["RULE:[1:$1@$0](.*@EXAMPLE.COM)s/@.*//"], "alice"),
        ("Alice@EXAMPLE.COM", ["RULE:[1:$1@$0](.*@EXAMPLE.COM)s/@.*///L"], "alice"),
        ("alice@EXAMPLE.COM", ["RULE:[1:$1@$0](.*@EXAMPLE.COM)s/@.*///U"], "ALICE"),
        ("Alice@EXAMPLE.COM", ["RULE:[1:$1]/L"], "alice"),
        ("Alice@EXAMPLE.COM", ["RULE:[1:$1]L"], "alice"),
        ("kafka/node1@EXAMPLE.COM", ["RULE:[2:$1-$2]"], "kafka-node1"),
        ("kafka/node1@EXAMPLE.COM", ["RULE:[2:$2;$1](node.*;kafka)s/;kafka//"], "node1"),
        ("a.b.c@EXAMPLE.COM", [r"RULE:[1:$1]s/\.//"], "ab.c"),
        ("a.b.c@EXAMPLE.COM", [r"RULE:[1:$1]s/\.//g"], "abc"),
        ("app-42@OTHER.ORG", [r"RULE:[1:$1.$0](.*OTHER\.ORG)s/app-(\d+)\..*/user$1/"], "user42"),
        ("ab@EXAMPLE.COM", [r"RULE:[1:$1]s/(a)(b)/$2$1$10/"], "baa0"),
        ("ab@EXAMPLE.COM", [r"RULE:[1:$1]s/a/\$1/"], "$1b"),
        ("ab@EXAMPLE.COM", [r"RULE:[1:$1]s/(x)?a/$1/"], "b"),
        ("zoë@EXAMPLE.COM", ["RULE:[1:$1-x]"], "zoë-x"),
        ("bob@EXAMPLE.COM", [r"RULE:[1:$1](\p{Lower}+)"], "bob"),
        # The first that fits decides, and what does not fit leaves it to the next.
        ("bob@OTHER.ORG", ["DEFAULT", "RULE:[2:$1]", "RULE:[1:other-$1]"], "other-bob"),
        ("bob@EXAMPLE.COM", ["RULE:[1:$1](al.*)", "DEFAULT"], "bob"),
        ("bob@EXAMPLE.COM", ["RULE:[1:$1](bo)", "DEFAULT", "RULE:[1:x$1]"], "bob"),
    ],
)
def test_the_first_rule_that_fits_makes_the_user(
    principal: str, rules: list[str], expected: str
) -> None:
    assert user(principal, *rules) == expected


@pytest.mark.parametrize(
    ("principal", "rules", "message"),
    [
        ("bob@OTHER.ORG", ["DEFAULT"], "No rules apply to 'bob@OTHER.ORG', rules"),
        ("bob@EXAMPLE.COM", ["RULE:[2:$1]"], "No rules apply"),
        ("bob@EXAMPLE.COM", ["RULE:[1:$1@$0]"], "Non-simple name 'bob@EXAMPLE.COM'"),
        ("kafka/n@EXAMPLE.COM", ["RULE:[2:$1/$2]", "DEFAULT"], "Non-simple name 'kafka/n'"),
        ("bob@EXAMPLE.COM", ["RULE:[1:$1]s/.*//"], "Non-simple name ''"),
        ("@EXAMPLE.COM", ["DEFAULT"], "Non-simple name ''"),
        ("a/b/c@EXAMPLE.COM", ["DEFAULT"], "Malformed Kerberos name"),
        (r"alice\@EXAMPLE.COM@OTHER.ORG", ["DEFAULT", "RULE:[1:$1]"], "Malformed Kerberos name"),
        ("zoë@EXAMPLE.COM", ["RULE:[1:$1]([^x]*)", "DEFAULT"], "is for ASCII only"),
        ("bob", ["DEFAULT"], "Malformed Kerberos name"),
        ("", ["DEFAULT"], "Malformed Kerberos name"),
        ("alice@EXAMPLE.COM\n", ["DEFAULT"], "No rules apply"),
    ],
)
def test_other_principals_are_no_user(principal: str, rules: list[str], message: str) -> None:
    with pytest.raises(NoUser, match=re.escape(message)):
        user(principal, *rules)


@pytest.mark.parametrize(
    "rule",
    [
        "default",
        "",
        "DEFAULT/L",
        "RULE:",
        "RULE:[:$1]",
        "RULE:[1]",
        "RULE:[1:$1",
        "RULE:[1:$1](a",
        "RULE:[1:$1]s/a/b",
        "RULE:[1:$1]s/a/b/gg",
        "RULE:[1:$1]/X",
        "RULE:[1:$2]",
        "RULE:[1:$]",
        "RULE:[1:$1](*)",
        "RULE:[1:$1]s/(/b/",
        "RULE:[1:$1]s/a/$1/",
        "RULE:[1:$1]s/a/$x/",
        "RULE:[1:$1]s/a/\\/",
    ],
)
def test_a_text_that_is_no_rule_is_refused_with_its_text(rule: str) -> None:
    with pytest.raises(RuleError, match=re.escape(repr(rule))):
        PrincipalRules(["DEFAULT", rule], REALM)


@settings(max_examples=examples(100))
@given(first=_WORDS, second=_WORDS, realm=_WORDS)
def test_the_default_rule_is_the_first_component_in_the_default_realm_only(
    first: str, second: str, realm: str
) -> None:
    rules = PrincipalRules(["DEFAULT"], REALM)
    for principal in (f"{first}@{REALM}", f"{first}/{second}@{REALM}"):
        assert rules.user_of(principal) == first
    with pytest.raises(NoUser):
        rules.user_of(f"{first}@{realm}")


@settings(max_examples=examples(100))
@given(first=_WORDS, second=_WORDS)
def test_components_are_taken_as_they_are(first: str, second: str) -> None:
    """Neither dollars nor backslashes of a principal are read as a rule's."""
    assert user(f"{first}/{second}@R", "RULE:[2:$2.$1]") == f"{second}.{first}"
    assert user(f"{first}@R", "RULE:[1:$1]s/(.*)/$1!/") in (f"{first}!", f"{first}!!")


@settings(max_examples=examples(200))
@given(
    rule=st.text("RULE:[]()s/g$LU012.a\\", max_size=30), principal=st.text("ab/@$\\", max_size=12)
)
def test_any_text_is_a_rule_or_refused_and_any_principal_a_simple_name_or_none(
    rule: str, principal: str
) -> None:
    try:
        rules = PrincipalRules([f"RULE:[1:$1]{rule}"], "a")
    except RuleError:
        rules = PrincipalRules(["DEFAULT", "RULE:[2:$1$2]"], "a")
    try:
        found = rules.user_of(principal)
    except NoUser:
        return
    assert found
    assert not {"/", "@"} & set(found)
