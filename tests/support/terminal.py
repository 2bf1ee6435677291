"""A terminal for tests of what is drawn."""

from __future__ import annotations

import io


class Terminal(io.StringIO):
    """A terminal that keeps what is drawn."""

    def isatty(self) -> bool:
        return True
