"""Progress of long work on standard error: a bar where rich is installed, else (or with TERM=dumb) a line now and then.

Nothing is shown where standard error is no terminal, nor before two seconds are over: scripts and quick responses stay
as they are. Where the command prints meanwhile, nothing is shown beside it on the same terminal either.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from kavka.redrawing import start_bar

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_AFTER_S: Final = 2.0
_LINE_EVERY_S: Final = 5.0
_BAR_EVERY_S: Final = 0.1


class Progress:
    """The progress of some work; `total` is in units of its own, such as records."""

    def __init__(
        self,
        what: str,
        total: float,
        unit: str,
        out: TextIO | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Show nothing yet; without `out` never."""
        self._what = what
        self._total = total
        self._unit = unit
        self._out = out
        self._clock = clock
        self._began_s = clock()
        self._next_s = self._began_s + _AFTER_S
        self._bar: tuple[Bar, TaskID] | None = None

    def update(self, done: float) -> None:
        """Say how much is done; cheap enough to be called for each batch."""
        if self._out is None or not self._total or done >= self._total:
            return
        now_s = self._clock()
        if now_s < self._next_s:
            return
        bar = self._bar or start_bar(self._out, self._what, self._unit, self._total)
        if bar is None:
            self._next_s = now_s + _LINE_EVERY_S
            print(self._line(done, now_s), file=self._out, flush=True)
            return
        self._bar, self._next_s = bar, now_s + _BAR_EVERY_S
        bar[0].update(bar[1], completed=done)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None

    def _line(self, done: float, now_s: float) -> str:
        part = min(done / self._total, 1.0)
        line = f"{self._what}: {part:.0%} of {self._total:,.0f} {self._unit}"
        if not part:
            return line
        left_s = (now_s - self._began_s) * (1 - part) / part
        return f"{line}, {left_s:.0f} s left"


@contextmanager
def progress(
    what: str, total: float, unit: str, *, prints_meanwhile: bool = False
) -> Iterator[Progress]:
    """Yield the progress of some work; `prints_meanwhile` is a command that prints before it has ended."""
    is_free = not (prints_meanwhile and sys.stdout.isatty())
    out = sys.stderr if is_free and sys.stderr.isatty() else None
    shown = Progress(what, total, unit, out)
    try:
        yield shown
    finally:
        shown.close()
