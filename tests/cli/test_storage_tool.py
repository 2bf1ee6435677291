"""`kavka storage`: identities of log directories and ids of clusters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kavka.cli.commands.storage import main
from kavka.ids import uuid_bytes

OURS, OTHER = "3jaIPjfMsZZ9Sz7llwwPHg", "a2Fma2EtaW4tcHl0aG9uXw"


def properties(tmp_path: Path, *directories: Path | str) -> list[str]:
    """Write a broker's file that names log directories, and return the option that gives it."""
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={','.join(map(str, directories))}\n")
    return ["-c", str(file)]


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A directory that a broker has used."""
    directory = tmp_path / "used"
    directory.mkdir()
    content = f"#\nversion=0\nbroker.id=4\ncluster.id={OURS}\n"
    (directory / "meta.properties").write_text(content)
    return directory


def test_a_random_uuid_is_one_and_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(100):
        assert main(["random-uuid"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(set(printed)) == 100
    assert all(len(uuid_bytes(text)) == 16 and not text.startswith("-") for text in printed)


def test_info_prints_directories_and_their_identity(
    tmp_path: Path, used: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", *properties(tmp_path, used)]) == 0
    metadata = f"{{broker.id=4, cluster.id={OURS}, version=0}}"
    expected = f"Found log directory:\n  {used}\n\nFound metadata: {metadata}\n\n"
    assert capsys.readouterr().out == expected


def test_info_ends_with_1_where_it_finds_problems(
    tmp_path: Path, used: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, damaged, file = tmp_path / "new", tmp_path / "damaged", tmp_path / "file"
    file.write_text("")
    for directory in (new, damaged):
        directory.mkdir()
    (damaged / "meta.properties").write_text("broker.id=4\n")
    assert main(["info", *properties(tmp_path, used, new, damaged, file, tmp_path / "no")]) == 1
    problems = capsys.readouterr().out.partition("Found problems:\n")[2]
    assert problems.splitlines()[:4] == [
        f"  {damaged}: meta.properties has no version, so it is damaged",
        f"  {file} is not a directory",
        f"  {new} is not formatted: no broker has used it yet",
        f"  {tmp_path / 'no'} does not exist",
    ]


def test_format_says_that_it_is_not_needed_and_refuses_another_cluster(
    tmp_path: Path, used: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = properties(tmp_path, used)
    assert main(["format", "-t", OURS, *at]) == 0
    assert capsys.readouterr().out.startswith("Nothing to format: ")
    assert main(["format", "-t", OTHER, *at]) == 1
    assert f"{used} belongs to the cluster {OURS}, not to {OTHER}" in capsys.readouterr().err
    assert main(["format", "-t", "x", *at]) == 1
    assert "Cluster ID string x does not appear to be valid" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "-c", "/nowhere/server.properties"]) == 1
    assert "cannot read /nowhere/server.properties" in capsys.readouterr().err


def test_format_answers_as_json(
    tmp_path: Path, used: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = properties(tmp_path, used)
    assert main(["format", *options, "-t", OURS, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"directories": [str(used)], "formatted": False}
    assert main(["--json", "format", *options, "-t", OTHER]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert json.loads(shown.err)["error"]["code"] == "BAD_VALUE"
