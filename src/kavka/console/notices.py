"""Sentences about changes that were made, for the next page. An address holds the id of one, not its text."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Final

_MOST: Final = 200


class Notices:
    """The newest sentences; a page that is loaded again shows its own again."""

    def __init__(self) -> None:
        """Begin without any."""
        self._texts: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def add(self, text: str, reader: str = "") -> str:
        """Keep a sentence for one reader, and return its id."""
        number = secrets.token_urlsafe(9)
        self._texts[number] = reader, text
        if len(self._texts) > _MOST:
            self._texts.popitem(last=False)
        return number

    def get(self, number: str, reader: str = "") -> str:
        """Return a sentence, nothing when it is not known or for another reader."""
        owner, text = self._texts.get(number, ("", ""))
        return text if owner == reader else ""
