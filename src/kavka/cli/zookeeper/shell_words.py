"""Lines that are typed into `kavka zookeeper-shell`, taken apart as ZooKeeper's shell does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kavka.cli.arguments.options import whole_number
from kavka.core.znode_access import ADMIN, CREATE, DELETE, READ, WRITE, AccessList, AclEntry

_BETWEEN_ENTRIES = re.compile(r",(?=[^,:]*:)")
"""A comma in front of a scheme, and not one in the name of a certificate."""
_PERMISSIONS = {"c": CREATE, "d": DELETE, "r": READ, "w": WRITE, "a": ADMIN}
_WORD = re.compile(r"\"([^\"]*)\"|'([^']*)'|(\S+)")


class BadCommand(Exception):
    """A command that cannot be understood; the text is what ZooKeeper's shell says of it."""


class Syntax(NamedTuple):
    """The syntax of a command."""

    usage: str
    least: int
    """Minimum number of words beside its own name and its options."""
    most: int
    flags: str = ""
    valued: str = ""
    """Options that a value follows."""


class Words(NamedTuple):
    """A command taken apart."""

    options: dict[str, str | None]
    rest: list[str]

    def has(self, flag: str) -> bool:
        """Return whether an option was given."""
        return flag in self.options

    def version(self) -> int:
        """Return the number of `-v`, -1 (any) without one."""
        text = self.options.get("v")
        if text is None:
            return -1
        try:
            return whole_number(text, 32)
        except ValueError:
            raise BadCommand(f'For input string: "{text}"') from None


def parse_access_list(text: str) -> AccessList:
    """Return the access list of `scheme:id:permissions,...`. Raise BadCommand."""
    entries: list[AclEntry] = []
    for entry in _BETWEEN_ENTRIES.split(text):
        scheme, first, rest = entry.partition(":")
        name, last, letters = rest.rpartition(":")
        if not first or not last:
            raise BadCommand(f"{entry} does not have the form scheme:id:perm")
        unknown = [letter for letter in letters if letter not in _PERMISSIONS]
        if unknown:
            raise BadCommand(f"Unknown perm type: {unknown[0]}")
        permissions = 0
        for letter in letters:
            permissions |= _PERMISSIONS[letter]
        entries.append(AclEntry(permissions, scheme, name))
    return tuple(entries)


def split_line(line: str) -> list[str]:
    """Return the words of a line; one that begins with a quotation mark goes to the next such mark."""
    return [match[1] or match[2] or match[3] or "" for match in _WORD.finditer(line)]


def parse_words(syntax: Syntax, typed: Sequence[str]) -> Words:
    """Return the options and other words of a command. Raise BadCommand with its usage when they do not fit."""
    options: dict[str, str | None] = {}
    rest: list[str] = []
    words = list(typed)
    while words:
        word = words.pop(0)
        if len(word) < 2 or not word.startswith("-") or word[1:].isdigit():
            rest.append(word)
            continue
        for flag in word[1:]:
            if flag in syntax.flags:
                options[flag] = None
            elif flag in syntax.valued:
                if not words:
                    raise BadCommand(
                        f"org.apache.commons.cli.MissingArgumentException: Missing argument for option: {flag}"
                    )
                options[flag] = words.pop(0)
            else:
                raise BadCommand(
                    f"org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: {word}"
                )
    if not syntax.least <= len(rest) <= syntax.most:
        raise BadCommand(syntax.usage)
    return Words(options, rest)
