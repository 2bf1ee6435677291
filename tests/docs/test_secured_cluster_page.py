"""The blocks of docs/how-to/secure-a-cluster.md, typed in one shell: a registry, three brokers, kcat and our tools."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kavka_compat.processes import free_port
from support.code_blocks import ROOT, Block
from support.page_shell import compare_outputs
from support.page_terminal import free_tens, shell_in

PAGE = ROOT / "docs" / "how-to" / "secure-a-cluster.md"
RUN = f"run by {Path(__file__).resolve().relative_to(ROOT)}"

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]


def test_a_cluster_is_secured_from_nothing(tmp_path: Path) -> None:
    clients, brokers, metrics = free_tens(3)
    ports = {"1919": clients, "1929": brokers, "1939": metrics, "2182": str(free_port())}
    with shell_in(tmp_path, ports) as shell:
        shell.run("umask 077; exec 2> errors.log")

        def run(block: Block) -> str:
            if block.language == "sh":
                return shell.run(block.text)
            file = tmp_path / "block.py"
            file.write_text(block.text.replace("1919", clients))
            return shell.run(f"{sys.executable} block.py")

        assert compare_outputs(PAGE, RUN, run) == 6
    secrets = [path.read_text().strip() for path in (tmp_path / "secrets").iterdir()]
    for path in (*tmp_path.glob("*.log"), *tmp_path.glob("audit-*.json")):
        text = path.read_text(errors="replace")
        assert "Traceback" not in text, text[-3000:]
        assert not any(secret in text for secret in secrets), path
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o077 == 0 or path.name == "block.py", path
