"""`kavka metrics-users`: users are set, replaced and removed, and the passwords are those that a broker takes."""

from __future__ import annotations

import io
import stat
from pathlib import Path

import pytest

from kavka.cli.commands.metrics_users import main
from kavka.metrics.passwords import Users


def test_users_are_set_replaced_listed_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "users"

    def run(*words: str, password: str = "") -> int:
        monkeypatch.setattr("sys.stdin", io.StringIO(password))
        return main(["--file", str(path), *words])

    assert run("--set", "prometheus", password="one\n") == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run("--set", "grafana", password="two words\n") == 0
    path.chmod(0o640)
    assert run("--set", "prometheus", password="three") == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    users = Users(path.read_text())
    assert users.accept("prometheus", b"three")
    assert not users.accept("prometheus", b"one")
    assert users.accept("grafana", b"two words")
    assert run("--list") == 0
    assert capsys.readouterr().out == "prometheus\ngrafana\n"
    assert run("--remove", "prometheus") == 0
    assert Users(path.read_text()).names == ["grafana"]
    assert [child.name for child in tmp_path.iterdir()] == ["users"]


@pytest.mark.parametrize(
    ("words", "password", "said"),
    [
        (["--set", "a:b"], "x\n", "A user's name has no colon"),
        (["--set", "a"], "\n", "The password is empty"),
        (["--remove", "a"], "", "There is no user 'a' in the file"),
        (["--list"], "", "there is no user in it"),
        (["--list", "--set", "a"], "", "exactly one action"),
        ([], "", "exactly one action"),
    ],
)
def test_what_cannot_be_done_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    password: str,
    said: str,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(password))
    assert main(["--file", str(tmp_path / "users"), *words]) == 1
    assert said in capsys.readouterr().err
