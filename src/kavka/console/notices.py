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
        self._texts: OrderedDict[str, str] = OrderedDict()

    def add(self, text: str) -> str:
        """Keep a sentence, and return its id."""
        number = secrets.token_urlsafe(9)
        self._texts[number] = text
        if len(self._texts) > _MOST:
            self._texts.popitem(last=False)
        return number

    def get(self, number: str) -> str:
        """Return a sentence, nothing when it is not known."""
        return self._texts.get(number, "")
