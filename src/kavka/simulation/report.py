"""The report of a seed's run."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

from kavka.simulation.loop import Failure
from kavka.simulation.trace import Trace
from kavka.simulation.world import World


@dataclass(slots=True)
class Report:
    """The outcome: nothing broken and no failure is a pass."""

    seed: int
    trace: Trace
    broken: list[str]
    failures: list[Failure]
    virtual_s: float
    counts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, world: World, broken: list[str], counts: dict[str, int] | None = None) -> Report:
        """Sum up a world that has ended. That the product logged a fault of its disk is no failure."""
        failures = [failure for failure in world.failures if not _is_disk_fault(failure.exception)]
        return cls(world.seed, world.trace, broken, failures, world.loop.time(), counts or {})

    @property
    def passed(self) -> bool:
        """Return whether all invariants held."""
        return not self.broken and not self.failures

    def summary(self) -> str:
        """Return one line, and one more for each finding."""
        facts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items()))
        verdict = "ok" if self.passed else "FAILED"
        lines = [
            f"seed {self.seed}: {verdict}, {self.virtual_s:.1f} virtual s"
            + (f", {facts}" if facts else "")
        ]
        lines += [f"  broken: {finding}" for finding in self.broken]
        lines += [f"  failure: {failure}" for failure in self.failures]
        return "\n".join(lines)


def _is_disk_fault(error: BaseException | None) -> bool:
    """Return whether an error was injected by the nemesis: no other code of a simulation raises these."""
    return isinstance(error, OSError) and error.errno in (errno.EIO, errno.ENOSPC)
