"""A progress bar for long scans, on a terminal; needs rich, of the extra `sql`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from kavka.redrawing import start_bar
from kavka.sql.scan_state import ScanState

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_AFTER_S: Final = 1.0


class ScanProgress:
    """Shows how much of what a statement must read it has read, from its second second on."""

    def __init__(self) -> None:
        """Prepare a display that shows nothing yet."""
        self._state: ScanState | None = None
        self._since = 0.0
        self._shown: tuple[Progress, TaskID] | None = None

    def __call__(self, state: ScanState) -> None:
        """Show the progress of a running statement."""
        if state is not self._state:
            self.hide()
            self._state, self._since = state, time.monotonic()
        if time.monotonic() - self._since < _AFTER_S or not state.offsets_total:
            return
        self._shown = self._shown or start_bar(
            sys.stderr, "reading", "records", state.offsets_total
        )
        if self._shown is None:
            return
        progress, task = self._shown
        progress.update(task, total=state.offsets_total, completed=state.offsets_done)

    def hide(self) -> None:
        """Remove it, for rows that are printed; it comes back after a second without any."""
        self._since = time.monotonic()
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None
