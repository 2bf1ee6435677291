"""Commands whose standard streams are closed, or whose reader has gone."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kavka.cli.main import COMMANDS, main
from kavka.cli.text.standard_streams import print_anything
from kavka.testing.local_cluster import LocalCluster
from kavka.wire.records.batch import BatchBuilder

KAVKA = [sys.executable, "-m", "kavka"]


def _write_log(directory: Path) -> Path:
    builder = BatchBuilder()
    for number in range(3000):
        builder.append(None, b"%d" % number, 0)
    path = directory / f"{0:020}.log"
    path.write_bytes(builder.build())
    return path


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["dump-log", "--print-data-log"]])
def test_a_reader_that_has_gone_ends_a_command_quietly(words: list[str], tmp_path: Path) -> None:
    if words[0] == "dump-log":
        words = [*words, "--files", str(_write_log(tmp_path))]
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run([*KAVKA, *words], stdout=write_end, stderr=subprocess.PIPE)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")


def test_streams_that_the_caller_has_closed_give_their_numbers_to_no_file() -> None:
    command = f"{sys.executable} -m kavka --nonsense <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", command]).returncode == 2


@pytest.mark.parametrize("words", ["--help", "storage random-uuid", "lake --help"])
def test_a_response_for_which_the_output_is_closed_is_a_failure(words: str) -> None:
    command = f"{sys.executable} -m kavka {words} >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr == b"kavka: the output cannot be written: standard output is closed\n"


def test_nothing_to_print_is_no_failure_where_the_output_is_closed() -> None:
    command = f"{sys.executable} -m kavka completion --words nonsense >&-"
    assert subprocess.run(["sh", "-c", command]).returncode == 0


@pytest.mark.slow
def test_no_broker_is_reported_on_standard_error_when_standard_output_is_closed(
    tmp_path: Path,
) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("default.api.timeout.ms=200\n")
    limited = f"--bootstrap-server 127.0.0.1:1 --command-config {settings}"
    command = f"{sys.executable} -m kavka topics {limited} --list >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    warning, reason = done.stderr.splitlines()
    assert warning.startswith(
        "Connection to node -1 (127.0.0.1:1) could not be established. Node may not be available."
    )
    assert reason.startswith("cannot reach any of bootstrap.servers [127.0.0.1:1]: ")
    assert reason.endswith("; tried for 200 ms")


@pytest.mark.parametrize("words", [["--help"], ["dump-log", "--print-data-log"]])
def test_a_full_disk_behind_the_output_is_one_line(words: list[str], tmp_path: Path) -> None:
    if words[0] == "dump-log":
        words = [*words, "--files", str(_write_log(tmp_path))]
    with open("/dev/full", "w") as full:
        done = subprocess.run([*KAVKA, *words], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"No space left on device" in done.stderr


@pytest.mark.slow
def test_topics_on_a_full_disk_is_one_line(kavka_cluster: LocalCluster) -> None:
    words = ["topics", "--bootstrap-server", kavka_cluster.bootstrap_servers, "--list"]
    with open("/dev/full", "w") as full:
        made = ["--create", "--topic", "t"]
        subprocess.run([*KAVKA, *words[:3], *made], check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([*KAVKA, *words], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"No space left on device" in done.stderr


def test_an_unknown_command_names_the_nearest() -> None:
    done = subprocess.run([*KAVKA, "topicz"], capture_output=True)
    assert done.returncode == 2
    assert b"did you mean 'topics'?" in done.stderr


_SILENT = {"server-stop", "zookeeper-server-stop"}
"""Commands that would stop what runs on this machine."""


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - _SILENT))
def test_the_help_of_each_command_fails_where_it_cannot_be_written(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main([name, "--help"])
    is_printed = capsys.readouterr().out != ""
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        assert main([name, "--help"]) == 1, "Kafka's tools end so after their help"
    sentence = "kavka: the output cannot be written: No space left on device\n"
    assert (capsys.readouterr().err == sentence) == is_printed


@pytest.mark.parametrize("word", ["\udcff", "--\udcff", "--topic=\udcff"])
def test_arguments_that_are_no_text_are_refused_by_each_command(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in sorted(set(COMMANDS) - _SILENT - {"completion", "zookeeper-shell"}):
        # As the interpreter's own.
        errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", errors)
            assert main([name, word]) in (1, 2), name
            errors.seek(0)
            assert errors.read(), name


def test_names_that_the_terminal_cannot_show_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="iso8859-1"))
        print_anything()
        print("\u65e5\udcff\xe9", flush=True)
        assert written.getvalue() == b"\\u65e5\xff\xe9\n"
