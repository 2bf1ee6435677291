r"""Names of principals from the distinguished names of client certificates: `ssl.principal.mapping.rules`. Pure.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,   the name is what the pattern found
    RULE:^.*CN=([a-z0-9]+).*$/$1@acme/U,     in upper case; L is lower case
    DEFAULT                                  the whole distinguished name

The first rule whose pattern matches the whole distinguished name gives the name. Source: KIP-371.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)"
_NEXT: Final = re.compile(rf"\s*(?:{_RULE})\s*(?:,\s*|$)")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


class BadMappingRules(ValueError):
    """A text is not a list of mapping rules."""


class NoMatchingRule(ValueError):
    """No rule applies to a distinguished name, so its owner has no name here."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None is DEFAULT."""
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        """Return the principal's name; None when the rule does not apply."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        found = self.pattern.sub(self._replaced, name)
        return {"L": found.lower(), "U": found.upper()}.get(self.case, found)

    def _replaced(self, match: re.Match[str]) -> str:
        def one(reference: re.Match[str]) -> str:
            if reference[1] is not None:
                return reference[1]
            number = int(reference[2])
            # Java's replacement is literal where the pattern has no such group.
            return (match[number] or "") if number <= match.re.groups else reference[0]

        return _REFERENCE.sub(one, self.replacement)


class SslPrincipalMapper:
    """The parsed mapping rules of a listener."""

    def __init__(self, rules: str) -> None:
        """Parse `ssl.principal.mapping.rules`. Raise BadMappingRules."""
        self._rules: list[_Rule] = []
        text, position = rules.strip() or "DEFAULT", 0
        while position < len(text):
            found = _NEXT.match(text, position)
            if found is None:
                raise BadMappingRules(
                    f"Expected DEFAULT or RULE:pattern/replacement/[LU], found {text[position:]!r}"
                )
            self._rules.append(_parsed(found))
            position = found.end()

    def name(self, distinguished_name: str) -> str:
        """Return the principal's name. Raise NoMatchingRule."""
        for rule in self._rules:
            found = rule.apply(distinguished_name)
            if found is not None:
                return found
        raise NoMatchingRule(f"No rule of ssl.principal.mapping.rules fits {distinguished_name!r}")


def _parsed(found: re.Match[str]) -> _Rule:
    if found[1] is not None:
        return _Rule(None, "", "")
    try:
        return _Rule(re.compile(found[2]), found[3], found[4])
    except re.error as error:
        raise BadMappingRules(f"The pattern {found[2]!r} is not supported: {error}") from error
