"""Bars and live views in terminals that redraw lines, by rich; a process that is killed leaves the cursor visible."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.progress import Progress, TaskID


def redrawing_console(out: TextIO) -> Console | None:
    """Return the console of a terminal; None without rich, and where lines cannot be redrawn (TERM=dumb)."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(file=out)
    return None if console.is_dumb_terminal else console


def start_redrawing(display: Live | Progress) -> None:
    """Show a display, and the cursor, which one that is killed or stopped (Ctrl-Z) could not bring back."""
    display.start()
    display.console.show_cursor()


def start_bar(out: TextIO, what: str, unit: str, total: float) -> tuple[Progress, TaskID] | None:
    """Return a bar that is shown until it is stopped, and its task; None as `redrawing_console`."""
    console = redrawing_console(out)
    if console is None:
        return None
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn(f"{{task.percentage:>3.0f}}% of {{task.total:,.0f}} {unit}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,  # what the command prints belongs to another stream
    )
    start_redrawing(bar)
    return bar, bar.add_task(what, total=total)
