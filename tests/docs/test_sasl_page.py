"""The blocks of docs/how-to/sasl.md and delegation-tokens.md, run in order as a new user would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka_compat.processes import free_port
from support.code_blocks import ROOT, Block
from support.kerberos import Realm, realm_in
from support.page_shell import PageShell, compare_outputs

PAGES = {"sasl": 8, "delegation-tokens": 3}
"""The number of outputs on each page."""
RUN = f"run by {Path(__file__).resolve().relative_to(ROOT)}"


class Runner:
    """Runs the blocks of the page in one directory, with a port of its own."""

    def __init__(self, directory: Path, realm: Realm) -> None:
        self._port = free_port()
        programs = (
            f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}{os.pathsep}/usr/sbin"
        )
        self._shell = PageShell(directory, {**realm.environment, "PATH": programs}, timeout_s=60)
        self._broker: subprocess.Popen[str] | None = None

    def run(self, block: Block) -> str:
        """Run a block, the broker's in the background; return what the block prints."""
        text = block.text.replace("9094", str(self._port))
        *before, last = text.splitlines()
        if last.startswith("kavka server-start"):
            self.stop()
            if before:
                self._shell.run("sh", "\n".join(before), block.name)
            self._broker = self._shell.serve(last, "ready: SASL_PLAINTEXT://")
            return ""
        return self._shell.run(block.language, text, block.name)

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.terminate()
            self._broker.communicate(timeout=30)
            self._broker = None


@pytest.fixture
def realm(tmp_path: Path) -> Iterator[Realm]:
    with realm_in(tmp_path / "realm") as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_the_page_run(tmp_path: Path, page: str, realm: Realm) -> None:
    runner = Runner(tmp_path, realm)
    try:
        compared = compare_outputs(ROOT / "docs" / "how-to" / f"{page}.md", RUN, runner.run)
    finally:
        runner.stop()
    assert compared == PAGES[page]
