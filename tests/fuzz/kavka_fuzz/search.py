"""The search for what costs most: all plain recipes once, then drawn ones and mutations of the worst, in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from random import Random

from kavka.broker.requests.served_apis import SUPPORTED_APIS
from kavka.wire.apis import APIS, ApiKey
from kavka_fuzz.emitter import frame_of
from kavka_fuzz.recipes import Recipe, drawn, mutated, served_versions, systematic
from kavka_fuzz.stage import Stage
from kavka_fuzz.target import BrokerFailed, Cost, Target

MOST_LOOP_MS = 100.0
MOST_GROWTH_MB = 64.0
ASSERTED_BYTES = 1_050_000
"""Frames up to a megabyte are judged, larger ones reported."""
_FRAMES_OF_A_BROKER = 150
_GROWN_MB = 96
_KEPT_OF_AN_API = 3
_TRIES = 2
_CHANGING = (ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.STOP_REPLICA)

Say = Callable[[str], None]


@dataclass
class Finding:
    """A recipe and what it did."""

    recipe: Recipe
    cost: Cost
    failure: str = ""
    """Reason why the broker counts as failed, when it does."""
    apache_ms: float | None = None
    """Milliseconds that another client of Apache Kafka waited."""

    @property
    def is_asserted(self) -> bool:
        """Return whether the frame is small enough to be judged."""
        return self.cost.bytes <= ASSERTED_BYTES

    @property
    def reasons(self) -> list[str]:
        """Return what is wrong; empty when nothing is."""
        found = [self.failure] if self.failure else []
        if self.cost.tracebacks:
            found.append("traceback in the log")
        if self.is_asserted and self.cost.loop_ms > MOST_LOOP_MS:
            found.append(f"{self.cost.loop_ms:.0f} ms of the loop in one go")
        if self.is_asserted and self.cost.growth_mb > MOST_GROWTH_MB:
            found.append(f"{self.cost.growth_mb:.0f} MB of growth")
        return found

    @property
    def score(self) -> float:
        """Return how bad the finding is: 1 is what is just allowed."""
        worst = max(self.cost.loop_ms / MOST_LOOP_MS, self.cost.growth_mb / MOST_GROWTH_MB)
        return worst + (100 if self.failure or self.cost.tracebacks else 0)


@dataclass
class Search:
    """One run against one kind of broker."""

    target: Target
    seed: int
    say: Say = print
    largest: int = 1_000_000
    best: dict[int, list[Finding]] = field(default_factory=dict)
    """The worst recipes of each API, worst first."""
    frames: int = 0

    def __post_init__(self) -> None:
        """Begin at the seed."""
        self._random = Random(self.seed)

    def sweep(self, seconds: float, *, every_version: bool = False) -> None:
        """Send the plain recipes, an API at a time, until all are sent or the time is over."""
        recipes = list(self._plain(every_version))
        stage = Stage("plain recipes", seconds, len(recipes), say=self.say)
        for recipe in recipes:
            if stage.is_over:
                break
            self.send(recipe)
            stage.step()
        stage.end()

    def climb(self, seconds: float) -> None:
        """Send drawn recipes and mutations of the worst until the time is over."""
        stage = Stage("drawn recipes and mutations", seconds, say=self.say)
        versions = served_versions()
        while not stage.is_over:
            stage.step()
            if self._random.random() < 0.4 or not self.best:
                self.send(drawn(self._random, *self._random.choice(versions)))
                continue
            of_api = self.best[self._random.choice(sorted(self.best))]
            self.send(mutated(self._random, self._random.choice(of_api).recipe))
        stage.end()

    def fixed(self, plain: int, others: int) -> Iterator[Recipe]:
        """Yield some plain recipes, then drawn ones and mutations: which depends on the seed only, not on any cost."""
        yielded = list(islice(self._plain(every_version=False), plain))
        yield from yielded
        versions = served_versions()
        for _ in range(others):
            if self._random.random() < 0.4 or not yielded:
                recipe = drawn(self._random, *self._random.choice(versions))
            else:
                recipe = mutated(self._random, self._random.choice(yielded))
            yielded.append(recipe)
            yield recipe

    def _plain(self, every_version: bool) -> Iterator[Recipe]:
        """Yield the first recipe of each API, then the second of each: what stops early has seen all APIs."""
        lists = []
        for key in SUPPORTED_APIS:
            api = APIS[key]
            versions = range(api.max_version, api.min_version - 1, -1)
            for version in versions if every_version else versions[:1]:
                recipes = list(systematic(key, version, self.largest))
                self._random.shuffle(recipes)
                lists.append(recipes)
        for row in zip_longest(*lists):
            yield from (recipe for recipe in row if recipe is not None)

    def send(self, recipe: Recipe) -> Finding:
        """Send one, and remember it when it is among the worst."""
        finding = self.tried(recipe)
        self.frames += 1
        self._after(finding)
        self._remember(finding)
        return finding

    def tried(self, recipe: Recipe) -> Finding:
        """Send one, and return what it did."""
        target = self.target
        finding = Finding(recipe, Cost())
        try:
            finding.cost = target.cost(frame_of(recipe, target.known))
            if recipe.api in _CHANGING and finding.cost.outcome != "busy":
                target.prepare()
        except (BrokerFailed, OSError, AssertionError) as error:
            finding.failure = f"{error}"[:2000]
        return finding

    def confirmed(self, finding: Finding) -> Finding:
        """Return the least of three tries where time or memory was too much: a busy machine makes both larger.

        Each is sent to a new broker. What failed in another way is returned as it is.
        """
        if finding.failure or finding.cost.tracebacks or not finding.reasons:
            return finding
        least = finding
        for _ in range(_TRIES):
            self.target.restart()
            again = self.tried(finding.recipe)
            if again.failure or again.cost.tracebacks:
                return again
            least.cost.loop_ms = min(least.cost.loop_ms, again.cost.loop_ms)
            least.cost.growth_mb = min(least.cost.growth_mb, again.cost.growth_mb)
            if not least.reasons:
                break
        return least

    def _after(self, finding: Finding) -> None:
        """Look after the broker: a check and a new one from time to time, at once when something was wrong."""
        target = self.target
        is_busy = finding.cost.outcome == "busy"
        grown = not finding.failure and target.system.resident_mb() > target.base_mb + _GROWN_MB
        if not (finding.failure or is_busy or grown or target.frames >= _FRAMES_OF_A_BROKER):
            return
        if not finding.failure:
            try:
                target.check()
            except BrokerFailed as error:
                finding.failure = str(error)
        finding.cost.tracebacks += target.tracebacks()
        target.restart()

    def _remember(self, finding: Finding) -> None:
        if finding.reasons:
            self.say(f"{', '.join(finding.reasons)[:300]}: {finding.recipe}")
        kept = self.best.setdefault(finding.recipe.api, [])
        kept.append(finding)
        kept.sort(key=lambda each: -each.score)
        del kept[_KEPT_OF_AN_API:]

    def worst(self) -> list[Finding]:
        """Return the worst of all APIs, worst first."""
        found = [finding for kept in self.best.values() for finding in kept]
        return sorted(found, key=lambda each: -each.score)


def write_frames(findings: list[Finding], directory: Path) -> list[str]:
    """Write recipes, and tracebacks, where `--replay` finds them; return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for number, finding in enumerate(findings):
        file = directory / f"{number:03}-{finding.recipe.title.replace(' ', '-')}.json"
        file.write_text(finding.recipe.dump() + "\n")
        if finding.cost.tracebacks or finding.failure:
            text = "\n\n".join([finding.failure, *finding.cost.tracebacks])
            file.with_suffix(".txt").write_text(text + "\n")
        files.append(str(file))
    return files
