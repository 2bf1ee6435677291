"""The user of a Kerberos principal, by `sasl.kerberos.principal.to.local.rules`.

The first rule that fits decides. `kafka/node1@EXAMPLE.COM` has two components and a realm.

    DEFAULT                                     the first component, if the realm is the default one
    RULE:[n:text](pattern)s/pattern/text/g/L    of principals of n components: in the first text $0 is the realm, $1 and
                                                on are the components; what results must match the first pattern as a
                                                whole; then the substitution, once or with g everywhere; then L lower, U
                                                upper case

All behind `[n:text]` is optional. Patterns are Java's; `$1` in the second text is a group of the second
pattern. Source: Apache Kafka's documentation, "Customizing SSL and SASL principals".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from kavka.core.java_patterns import BadJavaPattern, java_pattern
from kavka.core.sasl.exchange import SaslError
from kavka.values import frozen

DEFAULT: Final = "DEFAULT"
_RULE: Final = re.compile(
    r"RULE:\[(?P<count>[0-9]+):(?P<text>[^\]]*)\]"
    r"(?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?"
    r"/?(?P<case>[LU])?"
)
_PRINCIPAL: Final = re.compile(r"(?P<first>[^/@]*)(?:/(?P<second>[^/@]*))?@(?P<realm>[^/@]*)")
_PARAMETER: Final = re.compile(r"\$([0-9]*)")


class RuleError(ValueError):
    """A text that is no rule; the message shows it and says why."""


class NoUser(SaslError):
    """A principal that the rules make no user of."""


@frozen
class _Rule:
    """One `RULE:`. Texts are lists of literals and of numbers: of components in `text`, of groups in `replacement`."""

    source: str
    count: int
    text: tuple[str | int, ...]
    match: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    replacement: tuple[str | int, ...]
    replaces_all: bool
    case: str

    def apply(self, parameters: Sequence[str]) -> str | None:
        """Return the user of a principal, given its realm and components; None where the rule does not fit.

        Raise NoUser for what its patterns cannot be tried with: they are for ASCII.
        """
        if len(parameters) - 1 != self.count:
            return None
        base = "".join(p if isinstance(p, str) else parameters[p] for p in self.text)
        if not base.isascii() and (self.match or self.pattern):
            raise NoUser(
                f"The pattern of the rule {self.source} is for ASCII only, not for {base!r}"
            )
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        if self.pattern is not None:
            base = self.pattern.sub(self._replaced, base, count=0 if self.replaces_all else 1)
        return {"L": base.lower(), "U": base.upper()}.get(self.case, base)

    def _replaced(self, found: re.Match[str]) -> str:
        return "".join(p if isinstance(p, str) else found[p] or "" for p in self.replacement)


class PrincipalRules:
    """The rules of a listener, in their order."""

    def __init__(self, texts: Sequence[str], default_realm: str) -> None:
        """Read rules. Raise RuleError."""
        self._default_realm = default_realm
        self._rules = [None if text == DEFAULT else _parse(text) for text in texts]
        self._texts = ", ".join(texts)

    def user_of(self, principal: str) -> str:
        """Return the user. Raise NoUser."""
        found = _PRINCIPAL.fullmatch(principal)
        if found is None:
            raise NoUser(f"Malformed Kerberos name: {principal!r}")
        components = [part for part in (found["first"], found["second"]) if part is not None]
        parameters = [found["realm"], *components]
        for rule in self._rules:
            if rule is None:
                user = components[0] if found["realm"] == self._default_realm else None
            else:
                user = rule.apply(parameters)
            if user is not None:
                return _checked(user, principal)
        raise NoUser(f"No rules apply to {principal!r}, rules [{self._texts}]")


def _checked(user: str, principal: str) -> str:
    """Return a name that may be a user's: a simple one, as Kafka calls it."""
    if not user or "/" in user or "@" in user:
        raise NoUser(f"Non-simple name {user!r} after the rules for {principal!r}")
    return user


def _parse(text: str) -> _Rule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise RuleError(
            f"Invalid rule: {text!r}: expected DEFAULT or RULE:[n:text](pattern)s/pattern/text/g/L, without commas"
        )
    count = int(found["count"])
    pattern = _compiled(found["pattern"], text)
    return _Rule(
        source=text,
        count=count,
        text=_parameters(found["text"], count, text),
        match=_compiled(found["match"], text),
        pattern=pattern,
        replacement=() if pattern is None else _groups(found["replacement"], pattern.groups, text),
        replaces_all=found["all"] is not None,
        case=found["case"] or "",
    )


def _compiled(pattern: str | None, text: str) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        return java_pattern(pattern)
    except BadJavaPattern as error:
        raise RuleError(f"Invalid rule: {text!r}: the pattern {pattern!r}: {error}") from None


def _parameters(template: str, most: int, text: str) -> tuple[str | int, ...]:
    """Return the parts of a text in which `$0` is the realm and `$n` a component."""
    parts: list[str | int] = []
    end = 0
    for found in _PARAMETER.finditer(template):
        if not found[1] or int(found[1]) > most:
            raise RuleError(
                f"Invalid rule: {text!r}: {found[0]} is outside of the valid range $0 to ${most}"
            )
        parts += [template[end : found.start()], int(found[1])]
        end = found.end()
    return (*parts, template[end:])


def _groups(template: str, groups: int, text: str) -> tuple[str | int, ...]:
    """Return the parts of a replacement as Java reads it: `$n` is a group, a backslash quotes a character."""
    parts: list[str | int] = []
    position = 0
    while position < len(template):
        character = template[position]
        position += 1
        if character == "\\" and position < len(template):
            parts.append(template[position])
            position += 1
        elif character == "$":
            number, position = _group(template, position, groups, text)
            parts.append(number)
        elif character == "\\":
            raise RuleError(
                f"Invalid rule: {text!r}: nothing follows the backslash in the replacement"
            )
        else:
            parts.append(character)
    return tuple(parts)


def _group(template: str, position: int, groups: int, text: str) -> tuple[int, int]:
    """Return the number of a group that begins at `position`, with as many digits as groups allow, and its end."""
    end = position + 1
    digits = template[position:end]
    if not (digits.isascii() and digits.isdigit()) or int(digits) > groups:
        raise RuleError(
            f"Invalid rule: {text!r}: ${digits} in the replacement is none of {groups} groups"
        )
    while end < len(template) and template[end] in "0123456789":
        if int(template[position : end + 1]) > groups:
            break
        end += 1
    return int(template[position:end]), end
