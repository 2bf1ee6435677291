"""The command as users call it, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from support.sql_place import Place

pytestmark = pytest.mark.slow

KAVKA = [sys.executable, "-m", "kavka", "sql"]


@pytest.fixture(scope="module", autouse=True)
def filled(place: Place) -> None:
    place.create("visits")
    place.write("visits", [b'{"n": %d}' % n for n in range(50_000)])


def sql(place: Place, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [*KAVKA, *words, "--bootstrap-server", place.bootstrap]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload]


def test_statements_come_as_an_argument_or_on_standard_input(place: Place) -> None:
    done = sql(place, "select sum(n) as s from visits", "--output", "json")
    assert (done.stdout, done.stderr, done.returncode) == ('{"s":1249975000}\n', "", 0)
    done = sql(
        place, "--output", "csv", input="select 1 as a; create table t as select 2 as b;\nfrom t"
    )
    assert (done.stdout, done.returncode) == ('"a"\n"1"\n"b"\n"2"\n', 0)


def test_a_file_has_its_name_only_when_it_is_complete(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    done = sql(place, "select n from visits", "--output", "json", "--output-file", str(file))
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert json.loads(file.read_text().splitlines()[-1]) == {"n": 49_999}
    file.write_text("before")
    done = sql(place, "select error('x' || n) from visits", "--output-file", str(file))
    assert done.returncode == 1
    assert (os.listdir(tmp_path), file.read_text()) == (["rows.json"], "before")


def test_a_reader_that_has_gone_ends_it_quietly(place: Place) -> None:
    command = [
        *KAVKA,
        "select * from visits",
        "--output",
        "json",
        "--bootstrap-server",
        place.bootstrap,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b'{"topic":"visits"')
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["select * from nosuch"], "kavka sql: There is no topic nosuch"),
        (["select 1", "--from-beginning"], "kavka sql: --from-beginning goes with --follow"),
        (["select 1", "--follow", "--spark"], "kavka sql: --follow and --spark do not go together"),
        (
            ["select 1", "--output-file", "/nosuch/x"],
            "kavka sql: /nosuch/x cannot be written: No such file",
        ),
        (
            ["select * from visits", "--schema", "/nosuch.json"],
            "kavka sql: The schema /nosuch.json cannot be read",
        ),
        (["select 1", "--command-config", "/nosuch"], "kavka sql: cannot read /nosuch"),
        (["select 1", "--sample", "0"], "'0' is no number from 1 to 1000000"),
        ([" ; "], "kavka sql: there is no statement"),
    ],
)
def test_misuse_is_said_in_a_sentence(place: Place, words: list[str], sentence: str) -> None:
    done = sql(place, *words)
    assert (done.stdout, done.returncode) == ("", 1)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (("--follow",), signal.SIGINT),
        (("--follow",), signal.SIGTERM),
        (("--output", "json"), signal.SIGINT),
    ],
)
def test_a_signal_ends_it(place: Place, words: tuple[str, ...], number: signal.Signals) -> None:
    """Of a statement that follows, and of one that computes for long after one with a row."""
    long = "select 7 as n; select count(*) from range(100000) a, range(100000000) b where hash(a, b) = 5"
    live = 'select n from visits where n = 7 and "offset" >= 0'
    command = [
        *KAVKA,
        live if "--follow" in words else long,
        *words,
        "--bootstrap-server",
        place.bootstrap,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "n" in process.stdout.readline()
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (130, "")


def test_a_statement_that_follows_ends_with_the_reader_of_its_pipe(place: Place) -> None:
    """No record comes after those that `head -1` has read."""
    statement = ["select n from visits where n = 7", "--follow", "--from-beginning"]
    command = [*KAVKA, *statement, "--output", "json", "--bootstrap-server", place.bootstrap]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == '{"n":7}\n'
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(30) == 0


def test_a_missing_extra_is_named(place: Place, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'duckdb': raise ModuleNotFoundError(name, name='duckdb')\n"
        "sys.meta_path.insert(0, Missing())\n"
    )
    done = sql(place, "select 1", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert (
        done.stderr == "kavka sql: duckdb is missing: install it with `pip install 'kavka[sql]'`\n"
    )


def test_no_broker_is_said_at_once() -> None:
    done = subprocess.run([*KAVKA, "select 1", "--bootstrap-server", "127.0.0.1:1"],
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("kavka sql: cannot reach any of bootstrap.servers [127.0.0.1:1]")
