"""Two sides in turns, after a warm-up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from apache.results import print_now


class Speed(Protocol):
    """The property that every sample has."""

    @property
    def records_per_second(self) -> float:
        """The rate that is printed after each run."""
        ...


S = TypeVar("S", bound=Speed)


def run_rounds(
    name: str, sides: Sequence[str], rounds: int, run: Callable[[str], S]
) -> dict[str, list[S]]:
    """Run each side once to warm up and `rounds` times more; return the samples of those, by side."""
    samples: dict[str, list[S]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        # who goes first alternates, so that a machine that slows down harms both
        for side in sides if number % 2 else reversed(sides):
            sample = run(side)
            kind = f"round {number}" if number else "warm-up"
            print_now(f"{name}, {side}, {kind}: {sample.records_per_second:,.0f}/s")
            if number:
                samples[side].append(sample)
    return samples
