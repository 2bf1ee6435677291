"""The blocks of docs/how-to/sasl.md and delegation-tokens.md, run in order as a new user would."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.code_blocks import ROOT, Block, blocks
from support.kerberos import Realm, realm_in

PAGES = {"sasl": 6, "delegation-tokens": 3}
"""The number of outputs on each page."""
RUN = f"run by {Path(__file__).resolve().relative_to(ROOT)}"


class Runner:
    """Runs the blocks of the page in one directory, with a port of its own."""

    def __init__(self, directory: Path, realm: Realm) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._directory = directory
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}{os.pathsep}/usr/sbin"
        self._environment = {**os.environ, **realm.environment, "PATH": path}
        self._broker: subprocess.Popen[str] | None = None

    def run(self, block: Block) -> str:
        """Run a block, the broker's in the background; return what the block prints."""
        text = block.text.replace("9094", str(self._port))
        *before, last = text.splitlines()
        if last.startswith("kavka server-start"):
            self.stop()
            if before:
                self._run("sh", "\n".join(before), block.name)
            self._start(last)
            return ""
        return self._run(block.language, text, block.name)

    def _run(self, language: str, text: str, name: str) -> str:
        command = ["bash", "-euo", "pipefail"] if language == "sh" else [sys.executable]
        done = subprocess.run(
            [*command, "-c", text],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"
        return done.stdout

    def _start(self, command: str) -> None:
        self._broker = subprocess.Popen(
            command.split(),
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._broker.stdout is not None
        assert "ready: SASL_PLAINTEXT://" in self._broker.stdout.readline()

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
    printed = ""
    compared = 0
    try:
        for block in blocks(ROOT / "docs" / "how-to" / f"{page}.md"):
            if block.comment == RUN:
                printed = runner.run(block)
            elif block.comment == "output":
                assert printed == block.text, block.name
                compared += 1
    finally:
        runner.stop()
    assert compared == PAGES[page]
