"""Standard streams that are closed, or have a closed other end."""

from __future__ import annotations

import os
import sys


def open_closed_streams() -> None:
    """Open `/dev/null` where the caller closed a standard stream, so that no file or socket gets its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            file = open(os.devnull, mode)  # noqa: SIM115 - it is open as long as the process
            os.dup2(file.fileno(), number)
            setattr(sys, name, file)


def drop_output() -> None:
    """Discard what is left for standard output, which the interpreter would try to write again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
