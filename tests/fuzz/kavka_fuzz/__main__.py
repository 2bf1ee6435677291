"""`python -m kavka_fuzz`: search for the requests that cost most, and a table of them, worst first."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

from kavka.termination import termination_as_interrupt
from kavka_compat.processes import ProcessDied
from kavka_fuzz import apache, hostile
from kavka_fuzz.recipes import Recipe
from kavka_fuzz.report import table
from kavka_fuzz.search import Finding, Search, write_frames
from kavka_fuzz.stage import Stage
from kavka_fuzz.target import BrokerFailed, Target

_SHOWN = 25
_CONFIRMED = 10
_LARGE_BYTES = 10_000_000
_SWEPT, _CLIMBED, _HOSTILE = 0.55, 0.35, 0.1
"""Shares of the minutes."""
_AGAIN_S, _LARGE_S, _APACHE_S = 60.0, 30.0, 90.0
"""Maximum time of the stages behind the minutes, or a tenth of the minutes if that is more: to measure again what was
too much, to send large frames, and to ask Apache Kafka, whose start is most of it in a short run."""
_INTERRUPTED = 130
_ATTACKS = 20


def main(words: Sequence[str]) -> int:
    """Run; 0 when nothing was wrong, 1 when something was, 130 after SIGINT or SIGTERM: no broker is left then."""
    try:
        with termination_as_interrupt():
            return _main(_options(words))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        return _INTERRUPTED


def _main(options: argparse.Namespace) -> int:
    directory = Path(options.directory or tempfile.mkdtemp(prefix="kavka-fuzz-"))
    if options.replay:
        return _replay(options.replay, directory)
    seed = options.seed if options.seed is not None else secrets.randbits(32)
    print(f"seed {seed}, {options.minutes:g} minutes, evidence in {directory}", flush=True)
    target = Target(directory / "run")
    try:
        seconds = options.minutes * 60
        faults, search = _run(target, seed, seconds)
        findings = _judged(search, max(_AGAIN_S, seconds / 10))
        large = _large(search, max(_LARGE_S, seconds / 10))
    finally:
        target.end()
    shown = [*findings[:_SHOWN], *large]
    files = write_frames(shown, directory / "frames")
    if options.apache:
        _compare(shown, directory / "apache", max(_APACHE_S, seconds / 10))
    print(table(shown, files))
    wrong = [finding for finding in findings if finding.reasons]
    for fault in faults:
        print(f"hostile connection: {fault}")
    print(
        f"{search.frames} frames, {len(wrong)} recipes and {len(faults)} attacks with something wrong"
    )
    return 1 if wrong or faults else 0


def _say(text: str) -> None:
    print(text, flush=True)


def _compare(shown: Sequence[Finding], directory: Path, seconds: float) -> None:
    """Ask Apache Kafka, too; what it does not answer is left out of the table, not the table."""
    stage = Stage("Apache Kafka", seconds, len(shown), say=_say)
    try:
        apache.compare(shown, directory, stage)
    except (ProcessDied, OSError, AssertionError) as error:
        print(f"no more comparisons, Apache Kafka did not start: {error}")
    stage.end()


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kavka_fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument(
        "--seed", type=int, help="where the search begins; drawn when it is not given"
    )
    parser.add_argument(
        "--directory", help="for evidence; a new one below /tmp when it is not given"
    )
    parser.add_argument(
        "--apache",
        action=argparse.BooleanOptionalAction,
        default=apache.is_there(),
        help="send the worst frames to Apache Kafka, too; the default when its jars are there",
    )
    parser.add_argument(
        "--replay", type=Path, nargs="+", metavar="FILE", help="send what was written"
    )
    return parser.parse_args(words)


def _run(target: Target, seed: int, seconds: float) -> tuple[list[str], Search]:
    """Search, and attack; return what was wrong with the attacks, and the search."""
    search = Search(target, seed, say=_say)
    search.sweep(seconds * _SWEPT)
    search.climb(seconds * _CLIMBED)
    target.restart()
    return _attack(target, seed, seconds * _HOSTILE), search


def _attack(target: Target, seed: int, seconds: float) -> list[str]:
    random, faults = Random(seed), list[str]()
    stage = Stage("rounds of hostile connections", seconds, say=_say)
    chosen = list(hostile.floods(random, target.known))
    while not stage.is_over:
        faults += hostile.attack(target, chosen)
        stage.step()
        chosen = list(islice(hostile.attacks(random, target.known), _ATTACKS))
    target.check()
    stage.end()
    return faults


def _judged(search: Search, seconds: float) -> list[Finding]:
    """Return the worst; those that were too much are sent again to new brokers until ten have shown it again.

    One for which there is no time stays as it is.
    """
    worst, found = search.worst(), list[Finding]()
    stage = Stage("measured again", seconds, sum(bool(f.reasons) for f in worst), say=_say)
    for finding in worst:
        is_enough = sum(bool(each.reasons) for each in found) >= _CONFIRMED
        if is_enough or stage.is_over or not finding.reasons:
            found.append(finding)
            continue
        found.append(search.confirmed(finding))
        stage.step()
    stage.end()
    return sorted(found, key=lambda each: -each.score)


def _large(search: Search, seconds: float) -> list[Finding]:
    """Return what the worst recipes cost with ten times the bytes."""
    found, worst = [], search.worst()[:10]
    stage = Stage("frames of ten megabytes", seconds, len(worst), say=_say)
    for finding in worst:
        if stage.is_over:
            break
        search.target.restart()
        found.append(search.tried(replace(finding.recipe, size=_LARGE_BYTES)))
        stage.step()
    stage.end()
    return found


def _replay(files: Sequence[Path], directory: Path) -> int:
    """Send frames one after the other to one broker, and show what each cost."""
    target = Target(directory / "replay")
    try:
        search = Search(target, 0)
        recipes = [Recipe.load(file.read_text()) for file in files]
        findings = [search.tried(recipe) for recipe in recipes]
        for finding in findings:
            print("\n".join([str(finding.recipe), *finding.cost.tracebacks]))
        print(table(findings, [str(file) for file in files]))
        target.check()
    except BrokerFailed as failed:
        print(failed)
        return 1
    finally:
        target.end()
    return 1 if any(finding.reasons for finding in findings) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
