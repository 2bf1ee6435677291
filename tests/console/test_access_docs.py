"""The files and commands of docs/how-to/console-access.md, as a reader puts them together."""

from __future__ import annotations

import io
import shlex
from pathlib import Path

import pytest

from kavka.cli.main import main
from kavka.console.access.config import read_access
from kavka.console.access.passwords import users_of
from kavka.console.access.roles import Role, User
from support.code_blocks import ROOT, blocks

PAGE = ROOT / "docs/how-to/console-access.md"


def test_the_files_of_the_page_are_those_that_a_console_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = [
        block
        for block in blocks(PAGE)
        if block.comment.startswith("run by") and "access_docs" in block.comment
    ]
    (commands,) = (block.text for block in here if block.language == "sh")
    monkeypatch.chdir(tmp_path)
    for line in commands.splitlines():
        given, _, call = line.rpartition(" | ")
        typed = " ".join(shlex.split(given)[1:])
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{typed}\n"))
        assert shlex.split(call)[0] == "kavka"
        assert main(shlex.split(call)[1:]) == 0
    (output,) = (block.text for block in blocks(PAGE) if block.comment == "output")
    assert capsys.readouterr().out == output
    assert list(users_of((tmp_path / "users").read_text())) == ["anna", "otto"]

    (tmp_path / "oidc-secret").write_text("secret\n")
    file = tmp_path / "access.toml"
    file.write_text("\n".join(block.text for block in here if block.language == "toml"))
    access = read_access(str(file))
    otto = User("otto", "local", access.grants_of("otto"))
    assert otto.may(Role.OPERATOR, topic="orders-eu")
    assert not otto.may(Role.OPERATOR, topic="people-eu")
    assert not otto.may(Role.OPERATOR, group="orders-readers")
    assert User("anna", "local", access.grants_of("anna")).may_on_all(Role.ADMINISTRATOR)
    assert access.grants_of(claims=["kafka-readers"])
    assert access.oidc is not None
    assert access.oidc.client_secret == "secret"
    assert len(access.masks) == 4
    assert access.masks[2].pattern is not None
    assert access.masks[2].pattern.sub("x", "4111 1111 1111 1111") == "x"
