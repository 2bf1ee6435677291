"""The blocks of a page of documentation, run in order in one directory, as a new user would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from support.code_blocks import Block, blocks


class PageShell:
    """Runs texts in a directory, with the commands of this environment first in the path."""

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        *,
        timeout_s: float = 120,
    ) -> None:
        """Take variables beside those of this process; no text may take longer than `timeout_s`."""
        self._timeout_s = timeout_s
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.directory = directory
        self.environment = {**os.environ, "PATH": path, **(environment or {})}

    def run(self, language: str, text: str, name: str) -> str:
        """Run a text of the language sh or python; return what it prints. Fail the test where it fails."""
        command = ["bash", "-euo", "pipefail", "-c"] if language == "sh" else [sys.executable, "-c"]
        done = subprocess.run(
            [*command, text],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=self._timeout_s,
            check=False,
        )
        assert done.returncode == 0, f"{name}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def serve(self, command: str, ready: str) -> subprocess.Popen[str]:
        """Start a broker, and return when its first line has `ready` in it."""
        broker = subprocess.Popen(
            command.split(),
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert broker.stdout is not None
        assert ready in broker.stdout.readline()
        return broker


def compare_outputs(page: Path, run_by: str, run: Callable[[Block], str]) -> int:
    """Run the blocks of a page that have this comment, and compare what they print with the outputs below them.

    Return the number of outputs.
    """
    printed, compared = "", 0
    for block in blocks(page):
        if block.comment == run_by:
            printed = run(block)
        elif block.comment == "output":
            assert printed == block.text, block.name
            compared += 1
    return compared
