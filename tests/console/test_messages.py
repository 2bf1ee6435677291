from __future__ import annotations

import html
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.testclient import TestClient

from kavka.client import TopicPartition, blocking
from kavka.console.failures import Refused
from kavka.console.pages.messages import FILTERS, tail
from kavka.console.parameters import Arguments
from kavka.console.subject import Services
from kavka.errors import KafkaError
from support.console import Cluster, with_services
from support.waiting import until

ATTACK = b"<script>alert('x')</script>"


def found(pages: TestClient, topic: str, **query: Any) -> Any:
    answer = pages.get(f"/api/topics/{topic}/messages", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def places(messages: Any) -> list[tuple[int, int]]:
    return [(record["partition"], record["offset"]) for record in messages["records"]]


@pytest.fixture(scope="module")
def orders(cluster: Cluster) -> str:
    """A topic of three partitions with forty records each; its times are no order of its offsets."""
    cluster.create("orders", 3)
    for partition in range(3):
        for start in range(0, 40, 10):
            rows = [
                (b"k%d" % n, json.dumps({"n": n, "p": partition}).encode())
                for n in range(start, start + 10)
            ]
            moment = 1_700_000_000_000 + (start if partition else -start) * 1000
            cluster.write("orders", rows, partition, [("source", b"web")], moment)
    return "orders"


@pytest.mark.parametrize(("begin", "step"), [("oldest", "newer"), ("newest", "older")])
def test_steps_show_each_record_once(pages: TestClient, orders: str, begin: str, step: str) -> None:
    seen: list[tuple[int, int]] = []
    query = {"start": begin}
    for _ in range(40):
        messages = found(pages, orders, limit=13, **query)
        seen += places(messages)
        if not messages[step]:
            break
        query = {"start": "at" if step == "newer" else "before", "at": messages[step]}
    assert sorted(seen) == [(partition, offset) for partition in range(3) for offset in range(40)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"key": "K7"}, [(p, 7) for p in range(3)]),
        ({"text": '"n": 39', "partition": 1}, [(1, 39)]),
        ({"header": "source=WEB", "key": "k12"}, [(p, 12) for p in range(3)]),
        ({"header": "source=mail"}, []),
        ({"header": "nothing"}, []),
        ({"start": "offset", "offset": 38}, [(p, o) for p in range(3) for o in (38, 39)]),
        (
            {"start": "time", "time": 1_700_000_020_000, "partition": 2},
            [(2, o) for o in range(20, 40)],
        ),
        ({"start": "time", "time": "2030-01-01T00:00"}, []),
    ],
)
def test_a_search_finds_what_the_filter_says(
    pages: TestClient, orders: str, query: dict[str, Any], expected: list[tuple[int, int]]
) -> None:
    assert sorted(places(found(pages, orders, **query))) == expected


def test_a_bounded_search_says_how_far_it_looked_and_goes_on(
    pages: TestClient, orders: str
) -> None:
    first = found(pages, orders, key="k3", partition=0, scan=10, limit=5, start="oldest")
    assert (first["reach"]["ended"], first["reach"]["records"]) == ("records", 10)
    assert first["reach"]["sentence"].startswith("Looked at 10 records")
    assert places(first) == [(0, 3)]
    rest = found(pages, orders, key="k3", partition=0, limit=50, start="at", at=first["newer"])
    assert places(rest) == [(0, offset) for offset in range(30, 40)]
    assert rest["reach"]["ended"] == "end"
    newest = found(pages, orders, key="k3", partition=0, scan=10, limit=10)
    assert newest["reach"]["partitions"][0]["first"] == 30
    older = found(
        pages, orders, key="k3", partition=0, limit=10, start="before", at=newest["older"]
    )
    assert places(older) == [(0, 3)]


def test_positions_go_beyond_markers_of_transactions(cluster: Cluster, pages: TestClient) -> None:
    cluster.create("transactions")
    settings = {**cluster.settings, "transactional.id": "console"}
    with blocking.Producer(settings) as producer:
        producer.init_transactions()
        for commits in (True, False):
            producer.begin_transaction()
            producer.send("transactions", b"committed" if commits else b"aborted")
            producer.flush()
            (producer.commit_transaction if commits else producer.abort_transaction)()
    committed = found(pages, "transactions", start="oldest")
    assert [record["value"] for record in committed["records"]] == ["committed"]
    assert committed["reach"]["ended"] == "end"
    assert committed["reach"]["partitions"][0]["next"] == 4
    every = found(pages, "transactions", start="oldest", committed="false")
    assert [record["value"] for record in every["records"]] == ["committed", "aborted"]


def test_records_are_escaped_wherever_they_stand(cluster: Cluster, pages: TestClient) -> None:
    cluster.create("attacks")
    cluster.write("attacks", [(ATTACK, ATTACK)], headers=[(ATTACK.decode(), ATTACK)])
    query = {"text": ATTACK.decode(), "key": "<script>", "header": f"{ATTACK.decode()}"}
    for path in ("/topics/attacks/messages", "/topics/attacks/records/0/0"):
        text = pages.get(path, params=query).text
        assert "<script>" not in text.lower()
        assert text.count(html.escape(ATTACK.decode(), quote=True).replace("&#x27;", "&#39;")) >= 4
        assert all('src="/assets/' in tag for tag in re.findall(r"<script[^>]*>", text))


def test_binary_values_are_dumped_and_big_ones_are_cut(cluster: Cluster, pages: TestClient) -> None:
    cluster.create("binary")
    binary, big = bytes(range(256)), b"x" * 900_000
    cluster.write("binary", [(b"\x00\xff", binary), (b"big", big), (b"gone", None), (b"", b"")])
    rows = {record["offset"]: record for record in found(pages, "binary")["records"]}
    assert [rows[n]["value_kind"] for n in range(4)] == ["binary", "text", "null", "empty"]
    assert rows[0]["value"].splitlines()[4] == (
        "00000040  40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f  @ABCDEFGHIJKLMNO"
    )
    assert rows[0]["key_kind"] == "binary"
    assert len(rows[1]["value"]) == 16_000
    assert not rows[1]["value_is_whole"]
    saved = pages.get("/topics/binary/records/0/1/value")
    assert saved.content == big
    assert saved.headers["content-type"] == "application/octet-stream"
    assert saved.headers["content-disposition"] == 'attachment; filename="binary-0-1.bin"'
    assert saved.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/topics/none/messages", 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("/topics/orders/messages?partition=3", 404, "Its partitions are 0 to 2."),
        ("/topics/orders/messages?partition=x", 400, "not a whole number"),
        ("/topics/orders/messages?start=offset", 400, "offset is missing"),
        ("/topics/orders/messages?start=time&time=soon", 400, "not a time such as"),
        ("/topics/orders/messages?start=at&at=1-2", 400, "no position such as 0:123"),
        ("/topics/orders/messages?limit=501", 400, "from 1 to 500"),
        ("/topics/orders/messages?start=sideways", 400, "can be one of: newest"),
        ("/topics/orders/records/0/40", 404, "its offsets are 0 to 39"),
        ("/topics/orders/records/9/0", 404, "no partition 9"),
        ("/topics/orders/records/0/x", 400, "no offset"),
    ],
)
def test_a_wrong_question_is_answered_in_a_sentence(
    pages: TestClient, orders: str, path: str, status: int, sentence: str
) -> None:
    page, data = pages.get(path), pages.get(f"/api{path}")
    assert (page.status_code, data.status_code) == (status, status)
    assert sentence in html.unescape(page.text)
    failure = data.json()
    assert sentence in failure["detail"] + failure["advice"]


@pytest.mark.slow
def test_the_tail_shows_the_newest_and_counts_all(cluster: Cluster) -> None:
    cluster.create("fast")
    cluster.write("fast", [(None, b"before")])

    async def use(services: Services) -> list[tuple[int, int, list[bytes]]]:
        wanted = Arguments(FILTERS, {}, {"topic": "fast"})
        batches = tail(services, wanted)
        seen = [await anext(batches)]
        cluster.write("fast", [(None, b"%d" % n) for n in range(1000)])
        while sum(batch.seen for batch in seen) < 1000:
            seen.append(await anext(batches))
        await batches.aclose()
        return [(b.seen, b.kept, [record.value for record in b.records]) for b in seen]

    seen = with_services(cluster.bootstrap, use)
    assert seen[0] == (0, 0, [])
    assert sum(count for count, _, _ in seen) == 1000
    assert all(count >= len(values) <= 40 for count, _, values in seen)
    last = [values for _, _, values in seen if values][-1]
    assert last[-1] == b"999"


def test_a_tail_whose_reader_leaves_closes_its_connections(cluster: Cluster) -> None:
    cluster.create("left")

    async def use(services: Services) -> None:
        await services.cluster.topics()
        before = open_sockets()
        batches = tail(services, Arguments(FILTERS, {}, {"topic": "left"}))
        await anext(batches)
        assert open_sockets() > before
        # As Starlette ends a stream: in a scope in which every await is cancelled at once.
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await anext(batches)
            finally:
                await batches.aclose()
        await until(lambda: open_sockets() <= before, timeout_s=10)

    with_services(cluster.bootstrap, use, most_readers=1)


def open_sockets() -> int:
    """Return how many sockets this process has, those of the broker in it too."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found += os.readlink(descriptor).startswith("socket:")
    return found


@pytest.mark.slow
def test_the_tail_of_a_topic_that_is_deleted_ends(cluster: Cluster) -> None:
    cluster.create("doomed")

    async def use(services: Services) -> None:
        batches = tail(services, Arguments(FILTERS, {}, {"topic": "doomed"}))
        assert (await anext(batches)).seen == 0
        await services.cluster.ask(lambda admin: admin.delete_topics(["doomed"]))
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC"):
            [batch async for batch in batches]

    with_services(cluster.bootstrap, use)


def test_a_reader_creates_no_topic(cluster: Cluster) -> None:
    async def use(services: Services) -> bool:
        async with services.cluster.consumer() as consumer:
            consumer.assign([TopicPartition("absent", 0)])
            with suppress(KafkaError, TimeoutError):
                await consumer.poll(300)
        return "absent" in await services.cluster.ask(lambda admin: admin.describe_topics())

    assert not with_services(cluster.bootstrap, use)


def test_the_tail_filters(cluster: Cluster) -> None:
    cluster.create("filtered", 2)

    async def use(services: Services) -> tuple[int, list[bytes]]:
        wanted = Arguments(FILTERS, {"text": "7"}, {"topic": "filtered"})
        batches = tail(services, wanted)
        seen = [await anext(batches)]
        for partition in range(2):
            cluster.write("filtered", [(None, b"%d" % n) for n in range(20)], partition)
        while sum(batch.seen for batch in seen) < 40:
            seen.append(await anext(batches))
        await batches.aclose()
        return sum(b.kept for b in seen), [r.value for b in seen for r in b.records]

    assert with_services(cluster.bootstrap, use) == (4, [b"7", b"17"] * 2)


def test_no_more_readers_than_the_bound(cluster: Cluster, orders: str) -> None:
    async def use(services: Services) -> str:
        async with services.cluster.consumer():
            try:
                async with services.cluster.consumer():
                    return ""
            except Refused as error:
                return error.failure.detail

    assert "1 pages of this console read messages" in with_services(
        cluster.bootstrap, use, most_readers=1
    )


def test_a_read_begins_where_retention_has_left_the_log(
    cluster: Cluster, pages: TestClient
) -> None:
    cluster.create("trimmed")
    cluster.write("trimmed", [(None, b"%d" % n) for n in range(10)])
    with blocking.Admin(cluster.settings) as admin:
        admin.delete_records({TopicPartition("trimmed", 0): 6})
    messages = found(pages, "trimmed", start="offset", offset=2)
    assert places(messages) == [(0, n) for n in range(6, 10)]
    assert messages["older"] == ""
    assert found(pages, "trimmed", start="offset", offset=50)["records"] == []
