from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kavka.client import blocking
from kavka.sql.errors import SqlError, UndecodableValue
from support.sql_place import rows, values

if TYPE_CHECKING:
    from pathlib import Path

    from kavka.sql.session import Session
    from support.sql_place import Open, Place


def test_a_topic_has_the_columns_of_its_records_and_of_its_values(
    open_session: Open, place: Place
) -> None:
    place.create("clicks")
    with blocking.Producer(place.settings) as producer:
        value = {"user": "ann", "geo": {"city": "Basel", "lat": 47.5}, "tags": ["a"], "ms": 5}
        producer.append("clicks", json.dumps(value).encode(), b"k", timestamp_ms=1000,
                        headers=[("h", b"v"), ("h", None)])  # fmt: skip
        producer.append("clicks", b'{"user": "bob", "ms": 7.5, "more": true}')
        producer.append("clicks", None, b"gone")
    session = open_session()
    described = rows(session, "select column_name, column_type from (describe clicks)")
    assert {one["column_name"]: one["column_type"] for one in described} == {
        "topic": "VARCHAR", "partition": "INTEGER", "offset": "BIGINT",
        "timestamp": "TIMESTAMP WITH TIME ZONE", "key": "VARCHAR", "user": "VARCHAR",
        "geo": "STRUCT(city VARCHAR, lat DOUBLE)", "tags": "VARCHAR[]", "ms": "DOUBLE", "more": "BOOLEAN",
        "value": "VARCHAR", "headers": 'STRUCT("key" VARCHAR, "value" BLOB)[]',
    }  # fmt: skip
    first, second, third = rows(session, 'select * from clicks order by "offset"')
    assert first["geo"] == {"city": "Basel", "lat": 47.5}
    assert first["timestamp"] == "1970-01-01 00:00:01+00"
    assert first["headers"] == [{"key": "h", "value": "v"}, {"key": "h", "value": None}]
    assert (first["user"], first["tags"], first["ms"], first["key"]) == ("ann", ["a"], 5.0, "k")
    assert (second["user"], second["ms"], second["more"], second["geo"]) == ("bob", 7.5, True, None)
    assert (third["key"], third["value"], third["user"]) == ("gone", None, None)
    assert session.warnings == []


def test_fields_with_the_name_of_a_record_column_have_another_one(
    open_session: Open, place: Place
) -> None:
    place.create("named")
    place.write("named", [b'{"timestamp": "t", "Key": 1, "a": 1, "A": 2, "value_key": 3}'])
    (row,) = rows(open_session(), 'select * exclude (topic, value, headers, "offset") from named')
    del row["timestamp"]
    assert row == {"partition": 0, "key": None, "value_timestamp": "t", "value_Key": 1, "a": 1,
                   "A_1": 2, "value_key_1": 3}  # fmt: skip


def test_names_that_are_no_identifiers_are_quoted(open_session: Open, place: Place) -> None:
    for topic in ("my-topic.v1", "select", "Upper"):
        place.create(topic)
        place.write(topic, [b'{"a": 1}'])
    session = open_session()
    assert session.quoted("my-topic.v1") == '"my-topic.v1"'
    assert session.quoted("select") == '"select"'
    assert session.quoted("Upper") == "Upper"
    for topic in ("my-topic.v1", "select", "Upper"):
        assert values(session, f"select a from {session.quoted(topic)}") == [1]
    assert values(session, "select a from upper") == [1]
    place.create("Twice")
    place.create("tWice")
    with pytest.raises(SqlError, match="There are topics Twice and tWice, and none is twice"):
        session.execute("select * from twice")


@pytest.fixture(scope="module")
def orders(place: Place) -> str:
    """A topic with one record."""
    place.create("orders")
    place.write("orders", [b'{"n": 1}'])
    return "orders"


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("select * from order_s", "There is no topic order_s; did you mean orders\\?"),
        ("select * from zzz", "There is no topic zzz. The topics are: .*orders"),
        ("select nosuch from orders", 'Referenced column "nosuch" not found'),
        ("selec 1", 'syntax error at or near "selec"'),
        ("select * from orders where", 'syntax error at or near "where"'),
        ("select error('oh') from orders", "oh"),
    ],
)
@pytest.mark.usefixtures("orders")
def test_what_is_wrong_with_a_statement_is_said(
    open_session: Open, statement: str, sentence: str
) -> None:
    session = open_session()
    with pytest.raises(SqlError, match=sentence):
        rows(session, statement)
    assert values(session, "select 1") == [1], "the session goes on"


def test_topics_that_differ_by_case_are_not_mixed_up(open_session: Open, place: Place) -> None:
    for topic in ("Pair", "pAir"):
        place.create(topic)
        place.write(topic, [b'{"n": "%s"}' % topic.encode()])
    session = open_session()
    for topic in ("Pair", "pAir", "Pair"):
        assert values(session, f"select n from {topic}") == [topic]
    with pytest.raises(SqlError, match="A statement can read only one of the topics Pair and pAir"):
        session.execute("select * from Pair union all select * from pAir")


def test_an_error_is_that_of_its_own_statement(open_session: Open, place: Place) -> None:
    place.create("once")
    place.write("once", [*[b'{"n": 1}'] * 5, b"x"])
    session = open_session(is_strict=True)
    with pytest.raises(UndecodableValue):
        rows(session, "select n from once")
    with pytest.raises(SqlError, match="syntax error"):
        session.statements("selec")
    with pytest.raises(SqlError, match="nosuch"):
        rows(session, "select nosuch from once")


def test_values_that_cannot_be_decoded_are_null_and_counted(
    open_session: Open, place: Place
) -> None:
    place.create("bad")
    good = [b'{"n": %d}' % n for n in range(30)]
    place.write("bad", [*good, b"\xff", b"[1]", b'{"n": ', *good])
    session = open_session()
    assert values(session, "select count(*) - count(n) from bad") == [3]
    (sentence,) = session.warnings
    assert sentence.startswith(
        "3 values of bad could not be decoded and became null, the first of bad-0 at offset 30: it is not UTF-8"
    )
    assert values(session, "select count(*) from bad a join bad b using (n)") == [120]
    assert "3 values of bad" in session.warnings[0], "two scans of one topic count once"


def test_a_strict_statement_ends_at_a_value_that_cannot_be_decoded(
    open_session: Open, place: Place, tmp_path: Path
) -> None:
    schema = tmp_path / "n.json"
    schema.write_text('{"type": "object", "properties": {"n": {"type": "integer"}}}')
    place.create("stern", 2)
    place.write("stern", [b'{"n": 1}'], 0)
    place.write("stern", [b'{"n": 1}', b'{"n": "one"}'], 1)
    lenient = open_session({"schema_files": {"": str(schema)}})
    assert values(lenient, "select sum(n)::int from stern") == [2]
    strict = open_session({"schema_files": {"stern": str(schema)}}, is_strict=True)
    with pytest.raises(UndecodableValue) as raised:
        rows(strict, "select n from stern")
    assert str(raised.value) == (
        "The value of stern-1 at offset 1 cannot be decoded: field n is the JSON string 'one', not int64."
    )
    assert values(strict, "select count(*) from stern") == [3]


def test_bytes_stay_bytes_where_the_sample_is_no_text(open_session: Open, place: Place) -> None:
    place.create("raw")
    place.write("raw", [b"\xff\x00", b"plain"])
    assert values(open_session(), "select typeof(value) from raw limit 1") == ["BLOB"]
    text = open_session({"value_format": "text"})
    assert values(text, 'select value from raw order by "offset"') == [None, "plain"]
    assert "it is not UTF-8" in text.warnings[0]


def test_a_topic_without_records_has_only_the_columns_of_records(
    open_session: Open, place: Place
) -> None:
    place.create("empty", 3)
    session = open_session()
    assert rows(session, "select * from empty") == []
    assert "no records" in session.note("empty")
    assert len(session.known_columns("empty")) == 7


def test_only_committed_records_are_seen_unless_asked_for(open_session: Open, place: Place) -> None:
    place.create("tx")
    settings = place.settings | {"transactional.id": "sql"}
    with blocking.Producer(settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.append("tx", b'{"n": 1}')
        producer.commit_transaction()
        producer.begin_transaction()
        producer.append("tx", b'{"n": 2}')
        producer.flush()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.append("tx", b'{"n": 3}')
        producer.flush()
        assert values(open_session(), "select n from tx") == [1]
        uncommitted = open_session(settings={"isolation.level": "read_uncommitted"})
        assert values(uncommitted, "select n from tx order by 1") == [1, 2, 3]
        producer.abort_transaction()


def test_a_fields_types_that_differ_make_it_text(open_session: Open, place: Place) -> None:
    place.create("differ")
    place.write("differ", [b'{"a": 1, "b": {"x": 1}}', b'{"a": "one", "b": [1]}', b'{"a": null}'])
    session = open_session()
    assert values(session, 'select a from differ order by "offset"') == ["1", "one", None]
    assert values(session, "select b from differ limit 1") == ['{"x": 1}']


def test_all_scans_of_a_statement_see_the_same_end(open_session: Open, place: Place) -> None:
    place.create("grows")
    place.write("grows", [b'{"n": 1}'])
    session = open_session()
    state = session.new_state()
    (before,) = state.bounds(session.brokers.partitions("grows") or [])
    place.write("grows", [b'{"n": 2}'])
    assert state.bounds([before.topic_partition]) == [before]
    assert values(session, "select count(*) from grows") == [2]


def test_a_large_aggregate_goes_to_temporary_files(open_session: Open, place: Place) -> None:
    place.create("wide")
    place.write("wide", [b'{"k": "%06d%s"}' % (n, b"x" * 400) for n in range(40_000)])
    session = open_session(memory_limit="40MB")
    query = "select count(*) from (select k, count(*) from wide group by k order by k)"
    assert values(session, query) == [40_000]


def run_all(session: Session, text: str) -> None:
    for statement in session.statements(text):
        session.execute(statement)


def test_a_refused_statement_says_what_to_do(open_session: Open, place: Place) -> None:
    place.create("shop-orders")
    session = open_session()
    for statement, advice in {
        "select * from shop-orders": 'Put the topic\'s name in double quotes: "shop-orders".',
        "\\d": "Commands such as \\d are for the shell on a terminal",
        """insert into "shop-orders" values (1)""": "Statements only read topics",
        """delete from "shop-orders" """: "Statements only read topics",
    }.items():
        with pytest.raises(SqlError) as refused:
            run_all(session, statement)
        assert advice in str(refused.value)
    with pytest.raises(SqlError) as refused:
        session.statements("""selct * from "shop-orders" """)
    assert "double quotes" not in str(refused.value)


def test_show_tables_gives_topics_and_what_statements_have_made(
    open_session: Open, place: Place
) -> None:
    place.create("is-shown")
    session = open_session()
    session.execute("create table made as select 1 as a")
    names = values(session, "SHOW TABLES;")
    assert {"is-shown", "made"} <= set(names)
    assert names == sorted(names)
