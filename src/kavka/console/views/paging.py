"""The search in a long list, and its pages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


def searched(search: str) -> Callable[[str], bool]:
    """Return what says whether a text has all words of a search, in any case."""
    words = search.lower().split()

    def has_words(text: str) -> bool:
        lowered = text.lower()
        return all(word in lowered for word in words)

    return has_words


@dataclass(frozen=True, slots=True)
class Paging:
    """One page of a list; pages count from 1."""

    page: int
    pages: int
    first: int
    """The number of the first item shown, from 1; 0 when there is none."""
    last: int
    total: int


def paged(items: Sequence[T], page: int, size: int) -> tuple[Sequence[T], Paging]:
    """Return the items of a page, of the last one when there are fewer pages."""
    pages = max(-(-len(items) // size), 1)
    page = min(max(page, 1), pages)
    start = (page - 1) * size
    chosen = items[start : start + size]
    return chosen, Paging(page, pages, start + 1 if chosen else 0, start + len(chosen), len(items))
