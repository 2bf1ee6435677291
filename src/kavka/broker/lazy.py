"""A part of the broker that is made when it is first needed, so that a start neither imports nor makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """A part that is imported and made when it is first needed."""

    __slots__ = ("_make", "made")

    def __init__(self, make: Callable[[], T]) -> None:
        """`make` imports and makes the part; it is called at most once."""
        self._make = make
        self.made: T | None = None
        """The part, or None while nothing has needed it."""

    def get(self) -> T:
        """Return the part."""
        if self.made is None:
            self.made = self._make()
        return self.made
