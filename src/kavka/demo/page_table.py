"""The page counts of the streaming query, as the demo shows them: newest value of each window and page. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

Window = int
"""Start of a window, seconds since 1970."""


class PageTable:
    """Takes updates of (window, page, requests) and knows the sum and the top of the newest windows.

    Updates replace counts, so the `kept_windows` newest windows are kept by page; older ones are folded into one sum,
    and an update of a folded one raises ValueError.
    """

    def __init__(self, kept_windows: int) -> None:
        """Start empty."""
        self._kept_windows = kept_windows
        self._windows: dict[Window, Counter[str]] = {}
        self._folded_total = 0
        self._folded_until: Window | None = None

    def update(self, rows: Iterable[tuple[Window, str, int]]) -> None:
        """Replace the counts of these windows and pages."""
        for window, page, requests in rows:
            if self._folded_until is not None and window <= self._folded_until:
                raise ValueError(f"the window at {window} is closed")
            self._windows.setdefault(window, Counter())[page] = requests
        while len(self._windows) > self._kept_windows:
            oldest = min(self._windows)
            self._folded_total += self._windows.pop(oldest).total()
            self._folded_until = oldest

    @property
    def total(self) -> int:
        """The sum of all counts of all windows."""
        return self._folded_total + sum(pages.total() for pages in self._windows.values())

    def top(self, length: int) -> tuple[Window | None, list[tuple[str, int]]]:
        """Return the newest window that is filled (the newest but one) and its most requested pages."""
        if not self._windows:
            return None, []
        ordered = sorted(self._windows)
        window = ordered[-2] if len(ordered) > 1 else ordered[-1]
        pages = sorted(self._windows[window].items(), key=lambda entry: (-entry[1], entry[0]))
        return window, pages[:length]
