"""A finding of `kavka pipelines check`."""

from __future__ import annotations

from dataclasses import dataclass

from kavka.pipelines.definitions import Location


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, or might be, and where."""

    at: Location
    text: str
    is_error: bool = True

    def __str__(self) -> str:
        """Return it as compilers print it."""
        return f"{self.at}: {'error' if self.is_error else 'warning'}: {self.text}"
