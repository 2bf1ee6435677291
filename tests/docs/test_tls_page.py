"""The commands of the page about TLS, in order, beside the broker that they start."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kavka_compat.processes import free_port

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "tls.md"
BLOCK = re.compile(
    r"<!-- run by tests/docs/test_tls_page.py -->\n```(sh|python)\n(.*?)```", re.DOTALL
)
START = "kavka server-start "

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]


class Shell:
    """Runs blocks in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path}

    def run(self, language: str, text: str) -> str:
        command = ["bash", "-euo", "pipefail", "-c"] if language == "sh" else [sys.executable, "-c"]
        done = subprocess.run(
            [*command, text],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def serve(self, text: str) -> subprocess.Popen[str]:
        """Start the broker of a block, and return when it is ready."""
        broker = subprocess.Popen(
            text.split(),
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert broker.stdout is not None
        assert "ready: CLIENTS://localhost:" in broker.stdout.readline()
        return broker


def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    shell, port = Shell(tmp_path), free_port()
    broker: subprocess.Popen[str] | None = None
    printed = ""
    try:
        for language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            here = text.replace("localhost:9093", f"localhost:{port}")
            if here.startswith(START):
                broker = shell.serve(here)
            else:
                printed += shell.run(language, here)
    finally:
        if broker is not None:
            broker.terminate()
            broker.communicate(timeout=60)
    assert broker is not None
    assert broker.returncode == 0
    assert "a first order\n" in printed
    assert "orders\n" in printed
    hidden = "listener.name.clients.ssl.key.password=[hidden]"
    assert f"brokers '2' are listener.name.clients.ssl.client.auth=required,{hidden}\n" in printed
    assert "listener.name.clients.ssl.key.password=null sensitive=true" in printed
    assert "new-password" not in printed
    assert (tmp_path / "broker.pem").stat().st_mode & 0o077 == 0
