"""The commands of the page about TLS, in order, beside the broker that they start."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from kavka_compat.processes import free_port
from support.page_shell import PageShell

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "tls.md"
BLOCK = re.compile(
    r"<!-- run by tests/docs/test_tls_page.py -->\n```(sh|python)\n(.*?)```", re.DOTALL
)
START = "kavka server-start "

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]


def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    shell, port = PageShell(tmp_path), free_port()
    broker: subprocess.Popen[str] | None = None
    printed = ""
    try:
        for language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            here = text.replace("localhost:9093", f"localhost:{port}")
            if here.startswith(START):
                broker = shell.serve(here, "ready: CLIENTS://localhost:")
            else:
                printed += shell.run(language, here, here)
    finally:
        if broker is not None:
            broker.terminate()
            broker.communicate(timeout=60)
    assert broker is not None
    assert broker.returncode == 0
    assert printed.count("a first order\n") == 2
    assert "a first order\na second order\n" in printed  # of kcat
    assert "orders\n" in printed
    hidden = "listener.name.clients.ssl.key.password=[hidden]"
    assert f"brokers '2' are listener.name.clients.ssl.client.auth=required,{hidden}\n" in printed
    assert "listener.name.clients.ssl.key.password=null sensitive=true" in printed
    assert "new-password" not in printed
    assert (tmp_path / "broker.pem").stat().st_mode & 0o077 == 0
