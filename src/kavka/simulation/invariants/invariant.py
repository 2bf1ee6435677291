"""The shape of an invariant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from kavka.simulation.events import Event


class Violation(AssertionError):
    """A promise was broken; the text says which facts contradict each other."""


class Invariant(ABC):
    """A promise. `says` is what is promised, in one sentence."""

    says: ClassVar[str]

    @abstractmethod
    def observe(self, event: Event) -> None:
        """Take the next event of the run. Raise Violation when it breaks the promise."""
