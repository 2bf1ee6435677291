"""`kavka simulate`: run seeds of the simulated broker, and replay one as a story that can be read."""

from __future__ import annotations

import argparse
import sys
import time

from kavka.testing.simulation.batch import play, run_batches


def main(argv: list[str]) -> int:
    """Run the seeds that are asked for. Return 1 when one of them breaks a promise."""
    options = _parser().parse_args(argv)
    if options.seed is not None:
        return _replay(options.seed, storage=options.storage, tells_story=not options.quiet)
    if options.story:
        outcomes = [
            _replay(seed, storage=options.storage, tells_story=True) for seed in options.seeds
        ]
        return max(outcomes)
    return _run(options.seeds, storage=options.storage, jobs=options.jobs)


def _replay(seed: int, *, storage: bool, tells_story: bool) -> int:
    report = play(seed, storage=storage)
    if tells_story:
        print(report.story)
    print(report.summary(), flush=True)
    return 0 if report.passed else 1


def _run(seeds: range, *, storage: bool, jobs: int) -> int:
    started = time.monotonic()
    batch = run_batches(seeds, storage=storage, processes=jobs)
    for summary in batch.failed.values():
        print(summary)
    print(
        f"{batch.seeds} seeds, {len(batch.failed)} failed, {batch.virtual_s / 3600:.1f} virtual hours "
        f"in {time.monotonic() - started:.0f} s"
    )
    if batch.failed:
        command = "kavka simulate --storage" if storage else "kavka simulate"
        print(f"replay with: {command} --seed {min(batch.failed)}")
    return 1 if batch.failed else 0


def seed_range(text: str) -> range:
    """Return the seeds of `A-B`, both included, or of one number. Raise ArgumentTypeError."""
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
    parser.add_argument(
        "--storage", action="store_true", help="simulate one log on a bad disk only"
    )
    parser.add_argument("--story", action="store_true", help="print the story of every seed")
    parser.add_argument("--quiet", action="store_true", help="with --seed: print the outcome only")
    parser.add_argument("--jobs", type=int, default=2, help="processes for --seeds (default: 2)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
