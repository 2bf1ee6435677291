"""The blocks of docs/how-to/registry-access.md, run in order as a new user would, beside a registry and a broker."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kavka_compat.processes import Running, free_port
from support.code_blocks import ROOT, Block
from support.page_shell import PageShell, compare_outputs

PAGE = ROOT / "docs" / "how-to" / "registry-access.md"
RUN = f"run by {Path(__file__).resolve().relative_to(ROOT)}"
SERVERS = ("kavka zookeeper-server-start", "kavka server-start")


class Runner:
    """Runs the blocks of the page in one directory, with ports of its own; commands that serve in the background."""

    def __init__(self, directory: Path) -> None:
        self._ports = {number: str(free_port()) for number in ("2181", "9092")}
        self._directory = directory
        self._shell = PageShell(directory)
        self._running: list[Running] = []

    def run(self, block: Block) -> str:
        """Run a block; return what it prints."""
        text = block.text
        for number, port in self._ports.items():
            text = text.replace(number, port)
        if text.startswith(SERVERS):
            output = self._directory / f"server-{len(self._running)}.out"
            command = ["env", "-C", str(self._directory), *text.split()]
            self._running.append(Running(command, output))
            self._running[-1].wait_for("ready: ", 60)
            return ""
        return self._shell.run(block.language, text, block.name)

    def stop(self) -> None:
        for running in reversed(self._running):
            running.stop()


@pytest.mark.slow
@pytest.mark.compat
def test_the_blocks_of_the_page_about_the_registry_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    runner = Runner(tmp_path)
    try:
        compared = compare_outputs(PAGE, RUN, runner.run)
    finally:
        runner.stop()
    assert compared == 2
    assert (tmp_path / "jaas.conf").stat().st_mode & 0o077 == 0
    assert "secret" not in "".join(path.read_text() for path in tmp_path.glob("server-*.out"))
