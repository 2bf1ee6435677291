"""Two sides in turns, after a warm-up: the options of such a run, and its rounds."""

from __future__ import annotations

import argparse
import re
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from apache.report import Samples
from apache.results import print_now


class Speed(Protocol):
    """The property that every sample has."""

    @property
    def records_per_second(self) -> float:
        """The rate that is printed after each run."""
        ...


S = TypeVar("S", bound=Speed)


class Cost(Speed, Protocol):
    """The properties of a sample with the broker's processor time."""

    @property
    def cpu_seconds_per_million(self) -> float:
        """Processor time of the broker for a million records."""
        ...


def rates_and_cpu(samples: Mapping[str, Sequence[Cost]]) -> tuple[Samples, Samples]:
    """Return the records a second and the processor time of the samples, each by side."""
    rates = {side: [one.records_per_second for one in found] for side, found in samples.items()}
    cpu = {side: [one.cpu_seconds_per_million for one in found] for side, found in samples.items()}
    return rates, cpu


def end_on_sigterm() -> None:
    """From now on end by SIGTERM as by Ctrl-C: the brokers are stopped and their directories removed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def parse_options(about: str | None) -> argparse.Namespace:
    """Return the options of the command line: quick, rounds, only, directory. See `end_on_sigterm`, too."""
    end_on_sigterm()
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, one round")
    parser.add_argument("--rounds", type=int, help="measured rounds (default 5, quick 1)")
    parser.add_argument("--only", default="", help="workloads whose name matches this expression")
    parser.add_argument(
        "--directory", help="where all keep their logs (default: the temporary directory)"
    )
    return parser.parse_args()


def matching(names: Iterable[str], only: str) -> list[str]:
    """Return the names that match an expression; end the run when none does."""
    found = [name for name in names if re.search(only, name)]
    if not found:
        raise SystemExit(f"nothing to measure matches {only!r}")
    return found


def warm_up(sides: Sequence[str], run: Callable[[str], Speed], seconds: float) -> None:
    """Load each side in turns until each has been loaded for so long, before anything is measured.

    A JVM compiles what is called often, for half a minute and more; the warm-up of one workload is too short for it.
    """
    loaded = dict.fromkeys(sides, 0.0)
    while min(loaded.values()) < seconds:
        for side in sides:
            began = time.monotonic()
            sample = run(side)
            loaded[side] += time.monotonic() - began
            print_now(f"warm-up of the broker, {side}: {sample.records_per_second:,.0f}/s")


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
