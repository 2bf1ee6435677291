"""Our tools against a broker that has no listener but SASL_SSL: each once, with a file of client settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.cli.main import main
from kavka.testing.local_cluster import LocalCluster
from kavka_compat.apache import Finished
from kavka_compat.our_tools import our_tool
from kavka_compat.secured import Secured
from kavka_compat.secured_scripts import insist, steps
from support.access import AUTHORIZER


def test_each_tool_takes_its_file_of_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secured = Secured(tmp_path, {"admin": "admin-secret"}, "PLAIN")

    def run(tool: str, *words: str, stdin: str = "") -> Finished:
        if stdin:  # it is read from the process's own
            return our_tool(tool, *words, stdin=stdin)
        code = main([tool, *words])
        printed = capsys.readouterr()
        return Finished(code, printed.out, printed.err)

    settings = {
        **secured.broker_settings("admin"),
        "log.dirs": f"{tmp_path}/logs,{tmp_path}/more",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin",
    }
    with LocalCluster(tmp_path, brokers=1, settings=settings) as cluster:
        config = secured.properties("admin")
        at = cluster.bootstrap_servers
        insist(run, steps(at, config, tmp_path, str(tmp_path / "more"), broker=1))
