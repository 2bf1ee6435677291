"""Command lines without the secrets among the settings that they set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from kavka.cli.arguments.config_entries import parse_pairs
from kavka.cli.arguments.options import BadValue

_SENSITIVE: Final = re.compile(
    r"scram|passw|secret|jaas|credential|token|\.key$|certificate", re.IGNORECASE
)
_HIDDEN: Final = "[hidden]"


def shown_command(argv: Sequence[str], settings: Iterable[str]) -> str:
    """Return a command line with each of the given `a=1,b=2` hidden as a whole that may hold a secret.

    Where one cannot be taken apart nothing of it is shown: a bracket too few, and a password looks like a name.
    """
    hidden = [text for text in settings if _may_be_secret(text)]
    words = []
    for word in argv:
        for text in hidden:
            if text:
                word = word.replace(text, _HIDDEN)
        # A value that was cut in two at a space: its rest is a word that no option takes.
        is_rest = "=" in word and not word.startswith("-") and _SENSITIVE.search(word)
        words.append(_HIDDEN if is_rest else word)
    return " ".join(words)


def _may_be_secret(text: str) -> bool:
    try:
        pairs = parse_pairs(text)
    except BadValue:
        return True
    return any(_SENSITIVE.search(part) for pair in pairs.items() for part in pair)
