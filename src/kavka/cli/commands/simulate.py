"""`kavka simulate`: run seeds of the simulated broker or cluster, and replay one as a story that can be read."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from kavka.cli.text.progress import Progress, progress
from kavka.simulation.batch import Batch, Kind, Outcome, play, run_batches
from kavka.simulation.code import code_digest, commit_name
from kavka.simulation.ledger import Ledger, LedgerMismatch
from kavka.termination import termination_as_interrupt

_PRINT_EVERY_S = 15.0
_MANY_SEEDS = 200
"""As many should meet every situation that has a mark."""


def main(argv: list[str]) -> int:
    """Run the seeds that are asked for. Return 1 when one of them breaks a promise."""
    parser = _parser()
    options = parser.parse_args(argv)
    kind = Kind.STORAGE if options.storage else Kind.CLUSTER if options.cluster else Kind.BROKER
    if options.brokers is not None and kind is not Kind.CLUSTER:
        parser.error("--brokers needs --cluster")
    if options.ledger is not None and (options.seed is not None or options.story):
        parser.error("--ledger is for many seeds")
    if options.seed is not None:
        return _replay(options.seed, kind, options.brokers, prints_trace=not options.quiet)
    if options.story:
        outcomes = [
            _replay(seed, kind, options.brokers, prints_trace=True) for seed in options.seeds
        ]
        return max(outcomes)
    code, commit = code_digest(), commit_name()
    try:
        ledger = (
            None
            if options.ledger is None
            else Ledger(options.ledger, kind, options.brokers, code, commit)
        )
    except (LedgerMismatch, OSError) as error:
        parser.error(str(error))
    commit = commit if ledger is None else ledger.commit
    result = _run(options.seeds, kind, options.brokers, commit, jobs=options.jobs, ledger=ledger)
    if code_digest() != code:
        print("the code has changed meanwhile: not all outcomes are of one state of it")
        return max(result, 1)
    return result


def _replay(seed: int, kind: Kind, brokers: int | None, *, prints_trace: bool) -> int:
    report = play(seed, kind, brokers)
    if prints_trace:
        print(report.trace)
    print(report.summary(), flush=True)
    return 0 if report.passed else 1


class _Progress:
    """Writes outcomes down, and says on standard error how far it is, now and then."""

    def __init__(self, batch: Batch, seeds: int, ledger: Ledger | None, shown: Progress) -> None:
        self.batch = batch
        self.started_s = self._printed_s = time.monotonic()
        self._seeds = seeds
        self._ledger = ledger
        self._shown = shown

    def done(self, outcome: Outcome) -> None:
        batch = self.batch
        batch.add(outcome)
        if self._ledger is not None:
            self._ledger.add(outcome)
        self._shown.update(batch.seeds)
        now_s = time.monotonic()
        if outcome.failed or now_s - self._printed_s >= _PRINT_EVERY_S:
            self._printed_s = now_s
            failed = f", {len(batch.failed)} failed: {sorted(batch.failed)}" if batch.failed else ""
            took = f"{now_s - self.started_s:.0f} s"
            print(f"{batch.seeds} of {self._seeds} seeds in {took}{failed}", file=sys.stderr)


def _run(
    seeds: range,
    kind: Kind,
    brokers: int | None,
    commit: str,
    *,
    jobs: int,
    ledger: Ledger | None,
) -> int:
    known = {} if ledger is None else ledger.outcomes
    batch = Batch()
    for seed in seeds:
        if seed in known:
            batch.add(known[seed])
    if batch.seeds:
        print(f"{batch.seeds} of {len(seeds)} seeds were run before", file=sys.stderr)
    left = [seed for seed in seeds if seed not in known]
    started_s = time.monotonic()
    try:
        with termination_as_interrupt(), progress("simulating", len(seeds), "seeds") as shown:
            done = _Progress(batch, len(seeds), ledger, shown).done
            run_batches(left, kind, brokers=brokers, processes=jobs, done=done)
    except KeyboardInterrupt:
        print(f"stopped after {batch.seeds} of {len(seeds)} seeds", file=sys.stderr)
        return 130
    finally:
        if ledger is not None:
            ledger.close()
    for summary in batch.failed.values():
        print(summary)
    print(
        f"{batch.seeds} seeds, {len(batch.failed)} failed, {batch.virtual_s / 3600:.1f} virtual hours "
        f"and {batch.cpu_s:.0f} s of CPU in {time.monotonic() - started_s:.0f} s; "
        f"seeds {seeds.start}-{seeds.stop - 1} of {kind.value}, commit {commit}; {_marks_met(kind, batch)}"
    )
    missed = sorted({mark.name for mark in kind.marks} - batch.marks)
    if missed and batch.seeds >= _MANY_SEEDS:
        print(f"situations that no seed met: {', '.join(missed)}")
    if batch.failed:
        options = {Kind.BROKER: "", Kind.STORAGE: " --storage", Kind.CLUSTER: " --cluster"}[kind]
        options += f" --brokers {brokers}" if brokers is not None else ""
        print(f"replay with: kavka simulate{options} --seed {min(batch.failed)}")
    return 1 if batch.failed else 0


def _marks_met(kind: Kind, batch: Batch) -> str:
    names = [mark.name for mark in kind.marks]
    rarest = min(names, key=lambda name: batch.met[name])
    met = sum(name in batch.marks for name in names)
    return f"{met} of {len(names)} marks met, the rarest {batch.met[rarest]} times ({rarest})"


def seed_range(text: str) -> range:
    """Return the seeds of `A-B`, both included, or of one number. Raise argparse.ArgumentTypeError."""
    first, dash, last = text.partition("-")
    try:
        seeds = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a range of seeds such as 0-499"
        ) from None
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} holds no seed")
    return seeds


def _processes(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes from 1 to 64")
    return int(text)


def _brokers(text: str) -> int:
    if not text.isdecimal() or not 2 <= int(text) <= 9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of brokers from 2 to 9")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kavka simulate",
        description="Run the broker, unchanged, over a simulated network, disk and clock. "
        "Everything that happens follows from the seed.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, help="replay this seed and print its story")
    which.add_argument(
        "--seeds",
        type=seed_range,
        default=range(100),
        metavar="A-B",
        help="run these seeds (default: 0-99)",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--storage", action="store_true", help="simulate one log on a bad disk only")
    what.add_argument(
        "--cluster",
        action="store_true",
        help="simulate several brokers with their registry, controller, clients and administrators",
    )
    parser.add_argument(
        "--brokers",
        type=_brokers,
        help="with --cluster: this many brokers (default: 3 to 5, as the seed says)",
    )
    parser.add_argument(
        "--ledger",
        type=Path,
        metavar="FILE",
        help="with --seeds: write each outcome into this file, and leave out the seeds that are in it, "
        "so that the same command goes on after a stop; a file of other code is refused",
    )
    parser.add_argument("--story", action="store_true", help="print the story of every seed")
    parser.add_argument("--quiet", action="store_true", help="with --seed: print the outcome only")
    parser.add_argument(
        "--jobs", type=_processes, default=2, help="processes for --seeds (default: 2)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
