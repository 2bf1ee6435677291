from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from kavka.sql.shell import Shell, SqlCompleter, history_file

if TYPE_CHECKING:
    from kavka.sql.session import Session
    from support.sql_place import Open, Place


@pytest.fixture(scope="module", autouse=True)
def topics(place: Place) -> None:
    """Two topics, one with a name to quote."""
    for topic in ("visits", "my-visits"):
        place.create(topic)
        place.write(topic, [b'{"user": "ann", "page": "/"}'])


def completed(session: Session, text: str) -> set[str]:
    found = SqlCompleter(session).get_completions(Document(text), CompleteEvent())
    return {one.text for one in found}


def test_topics_columns_functions_and_keywords_are_completed(open_session: Open) -> None:
    session = open_session()
    assert completed(session, "select * from ") >= {"visits", '"my-visits"'}
    assert completed(session, "select * from my") == {'"my-visits"'}
    assert completed(session, 'select * from "my-') == {'"my-visits"'}
    assert completed(session, "select * from visits where pag") >= {"page"}
    assert "user" in {one.strip('"') for one in completed(session, "select * from visits where us")}
    assert "count" in completed(session, "select cou")
    assert "select" in completed(session, "sel")
    assert completed(session, "\\d vis") == {"visits"}
    assert "\\output" in completed(session, "\\o")
    assert completed(session, "\\output c") == {"csv"}


@contextmanager
def typed(session: Session, text: str, ran: list[tuple[str, str]]) -> Iterator[Shell]:
    """Give a shell in which a text is typed."""
    with create_pipe_input() as pipe:
        pipe.send_text(text)
        yield Shell(
            session,
            lambda statement, kind: ran.append((statement, kind)),
            lambda statement, kind: ran.append((statement, f"follow {kind}")),
            input=pipe,
            output=DummyOutput(),
        )


def test_statements_end_with_a_semicolon_and_commands_with_the_line(
    open_session: Open, capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ran: list[tuple[str, str]] = []
    text = (
        "select 1\r;\r\\output csv\rselect 2; select 3;\r\\d\r\\follow select * from visits\r"
        "\\nosuch\rselec;\r\\q\r"
    )
    with typed(open_session(), text, ran) as shell:
        assert shell.loop() == 0
    assert ran == [
        ("select 1\n;", "table"),
        ("select 2;", "csv"),
        ("select 3;", "csv"),
        ("select * from visits", "follow csv"),
    ]
    out, err = capsys.readouterr()
    assert "my-visits\nvisits\n" in out
    assert "\\nosuch is no command" in err
    assert 'syntax error at or near "selec"' in err
    assert "select 2; select 3;" in history_file().read_text()
    assert history_file().stat().st_mode & 0o077 == 0


def test_a_topic_is_described(
    open_session: Open, capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ran: list[tuple[str, str]] = []
    with typed(open_session(), "\\d my-visits\r\\q\r", ran) as shell:
        shell.loop()
    assert ran == [('select column_name, column_type from (describe "my-visits")', "table")]
    assert "fields: inferred from 1 of its records" in capsys.readouterr().out
