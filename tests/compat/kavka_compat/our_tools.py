"""Our command-line tools as processes."""

from __future__ import annotations

import subprocess

from kavka_compat.apache import Finished
from kavka_compat.ours import kavka_command


def our_tool(tool: str, *arguments: str, stdin: str = "", code: int = 0) -> Finished:
    """Run one of our tools to its end and insist on its exit code."""
    done = subprocess.run(
        kavka_command(tool, *arguments),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    finished = Finished(done.returncode, done.stdout, done.stderr)
    assert finished.code == code, f"{tool} {' '.join(arguments)}: {finished}"
    return finished
