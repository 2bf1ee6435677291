"""Records that the console writes, copies and exports, conditions on JSON, and values with a schema."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from kavka.client import blocking
from kavka.console.failures import Refused
from kavka.console.json_paths import condition_of
from kavka.console.pages.export import COLUMNS, csv_of, safe_cell
from kavka.console.pages.produce import header_lines, headers_of
from support.console import Cluster

BINARY = b"\x00\xff\x01"


@pytest.fixture(scope="module", autouse=True)
def written(cluster: Cluster) -> None:
    cluster.create("written", 2)
    cluster.create("copied", 1)
    values = [json.dumps({"user": {"id": n}, "items": [{"price": n * 10}]}) for n in range(5)]
    cluster.write("written", [(b"k%d" % n, value.encode()) for n, value in enumerate(values)])
    cluster.write(
        "written", [(b"b\r\n", BINARY)], 1, headers=[("h", b"v"), ("bin", BINARY), ("none", None)]
    )


def records(cluster: Cluster, topic: str) -> list[Any]:
    settings = {**cluster.settings, "group.id": "none", "auto.offset.reset": "earliest"}
    with blocking.Consumer({**settings, "enable.auto.commit": False}) as consumer:
        consumer.subscribe([topic])
        found: list[Any] = []
        while not found:
            for batch in consumer.poll(1000):
                found += batch.records()
    return found


def test_a_record_is_written_and_seen(pages: TestClient) -> None:
    body = {
        "key": "id-1",
        "key_format": "text",
        "value": '{"n": 1}',
        "value_format": "json",
        "headers": "trace: a:b\nbin: 0x00ff\nempty:\nnone\n",
        "partition": 0,
    }
    answer = pages.post("/api/topics/written/produce", json=body)
    assert answer.status_code == 200, answer.text
    assert re.fullmatch(
        r"The record was written to written, partition 0, offset \d+\.", answer.json()["message"]
    )
    record = pages.get(f"/api{answer.json()['location']}").json()
    assert (record["key"], json.loads(record["value"])) == ("id-1", {"n": 1})
    headers = {header["name"]: header["kind"] for header in record["headers"]}
    assert headers == {"trace": "text", "bin": "binary", "empty": "empty", "none": "null"}
    for wrong, sentence in (
        ({"value": "{", "value_format": "json"}, "value is not json"),
        ({"value": "0x0", "value_format": "hex"}, "value is not hex"),
        ({"value": "*", "value_format": "base64"}, "value is not base64"),
        ({"headers": ": v"}, "is no header such as"),
        ({"partition": 2}, "has no partition 2"),
        ({"value_format": "schema", "value": "{}"}, "without a schema registry"),
    ):
        refused = pages.post("/api/topics/written/produce", json={**body, **wrong})
        assert refused.status_code in (400, 404)
        assert sentence in refused.json()["detail"]


def test_a_changed_record_is_written_again_from_its_form(pages: TestClient) -> None:
    page = pages.get("/topics/written/produce?from=1:0")
    form = dict(re.findall(r'name="(csrf_token)" value="(\w+)"', page.text))
    filled = pages.get("/api/topics/written/produce?from=1:0").json()
    assert (filled["value"], filled["value_format"]) == ("00 ff 01", "hex")
    assert (filled["key"], filled["key_format"]) == ("62 0d 0a", "hex"), "line breaks would change"
    assert filled["headers"] == "h: v\nbin: 0x00ff01\nnone"
    sent = {name: str(filled[name]) for name in ("key", "key_format", "value_format", "headers")}
    answer = pages.post(
        "/topics/written/produce",
        data={**form, **sent, "value": "00 ff 02", "partition": "1"},
        headers={"Origin": "http://127.0.0.1:8080", "Sec-Fetch-Site": "same-origin"},
    )
    assert answer.status_code == 200, answer.text
    assert answer.url.path == "/topics/written/records/1/1"
    assert pages.get("/topics/written/records/1/1/value").content == b"\x00\xff\x02"


def test_a_copy_has_the_same_bytes(cluster: Cluster, pages: TestClient) -> None:
    path = "/api/topics/written/records/1/0/copy"
    assert pages.get(path).json()["value_bytes"] == 3
    own = pages.post(path, json={"to": "written"})
    assert (own.status_code, "own topic" in own.json()["detail"]) == (409, True)
    assert pages.post(path, json={"to": "copied"}).status_code == 200
    [copy] = records(cluster, "copied")
    assert (copy.key, copy.value) == (b"b\r\n", BINARY)
    assert list(copy.headers) == [("h", b"v"), ("bin", BINARY), ("none", None)]


def test_records_are_exported_and_the_file_says_how_far_it_looked(pages: TestClient) -> None:
    answer = pages.get("/topics/written/export?partition=0&start=oldest&limit=3")
    assert answer.headers["content-disposition"] == 'attachment; filename="written.json"'
    document = answer.json()
    assert [row["key"] for row in document["records"]] == ["k0", "k1", "k2"]
    assert document["reach"]["sentence"] == answer.headers["kavka-reach"]
    assert document["next"] == "0:3"
    text = pages.get("/api/topics/written/export?partition=1&start=oldest&limit=1&format=csv")
    [row] = list(csv.DictReader(io.StringIO(text.text, newline="")))
    assert (row["value"], row["value_encoding"]) == ("AP8B", "base64")
    assert (row["key"], row["key_encoding"]) == ("b\r\n", "utf-8")
    assert {one["name"]: one["encoding"] for one in json.loads(row["headers"])} == {
        "h": "utf-8",
        "bin": "base64",
        "none": "null",
    }
    assert pages.get("/topics/written/export?limit=10001").status_code == 400
    assert pages.get("/topics/none/export").status_code == 404


def test_no_cell_of_an_exported_file_is_a_formula(cluster: Cluster, pages: TestClient) -> None:
    cluster.create("-sheet")
    formulas = [b"=HYPERLINK(A1)", b"+1+1", b"-1+1", b"@SUM(A1)", b"\t=1", b"\r=1"]
    numbers = [b"-5", b"+5", b"-1.5"]
    pairs = [(one, one) for one in [*formulas, *numbers]]
    cluster.write("-sheet", [*pairs, (None, b"\xfb\xef\xbe")], headers=[("=h", b"=v")])
    text = pages.get("/topics/-sheet/export?start=oldest&format=csv").text
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    [binary] = [row for row in rows if row["value_encoding"] == "base64"]
    rows.remove(binary)
    assert binary["value"] == "'++++"
    for name in ("key", "value"):
        found = [row[name].encode() for row in rows]
        assert found == [*(b"'" + one for one in formulas[:4]), b"'\t'=1", b"'\r'=1", *numbers]
    assert {row["topic"] for row in rows} == {"'-sheet"}
    assert {row["headers"][0] for row in rows} == {"["}
    document = pages.get("/topics/-sheet/export?start=oldest").json()
    assert [row["value"].encode() for row in document["records"]][:-1] == [*formulas, *numbers]


def test_a_condition_on_json_keeps_records(pages: TestClient) -> None:
    for path, keys in (
        ("$.user.id = 3", ["k3"]),
        ("user.id>=3", ["k3", "k4"]),
        ("items[*].price < 15", ["k0", "k1"]),
        ('$["user"]', ["k0", "k1", "k2", "k3", "k4"]),
    ):
        found = pages.get(
            "/api/topics/written/messages", params={"path": path, "start": "oldest", "key": "k"}
        ).json()
        assert [record["key"] for record in found["records"]] == keys, path
    refused = pages.get("/api/topics/written/messages", params={"path": "a[b"})
    assert (refused.status_code, "not understood" in refused.json()["detail"]) == (400, True)


def test_a_record_is_shown_in_hexadecimal(pages: TestClient) -> None:
    record = pages.get("/api/topics/written/records/0/0?hex=true").json()
    assert (record["value_kind"], record["key"]) == (
        "binary",
        "00000000  6b 30                                            k0",
    )


VALUE = {"a": {"b": [1, {"c": "Text"}, None]}, "t": True, "n": 1.5, "x y": 0, "id": "7"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("$", True), ("a.b", True), ("a.b[0]", True), ("a.b[0] = 1", True), ("a.b[-1]", True), ("a.b[3]", False),
        ("a.b[1].c ~ tex", True), ("a.b[*].c = Text", True), ("a.*[1].c = 'Text'", True), ('a.b[1].c = "Text"', True),
        ("t = true", True), ("t = 1", False), ("n > 1", True), ("n > 2", False), ("n < a", False), ("t > 0", False),
        ("['x y'] = 0", True), ("a.none", False), ("id = 7", True), ("id != 7", False), ("a.b[2] = null", True),
    ],
)  # fmt: skip
def test_conditions_hold_where_their_path_leads(text: str, holds: bool) -> None:
    assert condition_of(text).holds(VALUE) is holds


def test_json_that_is_nested_too_deeply_is_a_wrong_value(pages: TestClient) -> None:
    deep = "[" * 20_000
    assert condition_of(f"$.a = {deep}").wanted == deep
    for form in ("json", "schema"):
        body = {"value": deep, "value_format": form}
        assert pages.post("/api/topics/written/produce", json=body).status_code in (400, 404)


@pytest.mark.parametrize("text", ["a[", "a..b", "a.[", "a b", "[0]a"])
def test_a_path_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not understood"):
        condition_of(text)


def test_headers_are_what_they_were() -> None:
    headers = [
        ("a", b"v"),
        ("a", b""),
        ("b", None),
        ("c", b"0x12"),
        ("d", b" padded "),
        ("e", BINARY),
        ("f", b"1\n2"),
    ]
    assert headers_of(header_lines(headers)) == headers
    with pytest.raises(Refused):
        headers_of("a: 0xzz")


TEXTS = [
    "=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1+1", "=cmd|' /C calc'!A0", "-", "--1", "+1\n",
    "-5", "+5", "-1.5e-3", "-.5", "1", "a=1", " =1", "'=1", "", "ä",
]  # fmt: skip
FORMULAS = TEXTS[:12]


def test_no_text_of_csv_is_a_formula_and_numbers_stay() -> None:
    assert [safe_cell(one) for one in TEXTS] == [
        re.sub(r"([\t\r\n])=", r"\1'=", f"'{one}") if one in FORMULAS else one for one in TEXTS
    ]


def opened(data: bytes, separator: str) -> list[str]:
    """Return the cells of a file as a spreadsheet of another locale opens it."""
    text = io.StringIO(data.decode(), newline="")
    return [cell for row in csv.reader(text, delimiter=separator) for cell in row]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_no_cell_is_a_formula_whatever_separates(separator: str) -> None:
    values = [
        f"{before}{formula}"
        for formula in ("=1+1", "+a", "-a", "@a", "\0=1", "\uff1d1", '"=1+1"', '""=1')
        for before in (";", "a;", "a;b\t", "a\n", "a\r\n", '",;', '";', "{;", ";;")
    ]
    row = dict.fromkeys(COLUMNS) | {"topic": "t", "headers": [{"value": "a;=1"}]}
    cells = opened(csv_of([{**row, "value": value} for value in values]), separator)
    assert len(cells) > len(values)
    assert [cell for cell in cells if re.match("[=+\\-@\0\uff1d]", cell)] == []
    assert safe_cell("a;-5;+1e3;b = c") == "a;-5;+1e3;b = c"
