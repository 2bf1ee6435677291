"""The programs give what a plain computation over the same records gives, each result once.

Events come in any order within an update; the last ones move all watermarks by a day.
"""

import json
import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

from kavka.pipelines.testing import Pipeline

DAY = datetime(2026, 11, 26, tzinfo=UTC)
PRODUCTS = ("coffee", "milk", "tea")
HOUR = timedelta(hours=1)
LITTLE, ENOUGH = 5, 20


def seconds(after: float) -> str:
    return (DAY + timedelta(seconds=int(after))).isoformat()


def time_of(event: dict) -> datetime:
    return datetime.fromisoformat(event["at"])


def make_events(chance: random.Random, start_h: float, end_h: float) -> dict[str, list[dict]]:
    """Return sales, of which some come twice, payments of most of them, and shipments."""
    topics = defaultdict(list)
    moments = chance.sample(range(int(start_h * 3600) + 1, int(end_h * 3600) - 1, 2), 48)
    for product, number in ((product, number) for product in PRODUCTS for number in range(16)):
        after = moments.pop()
        if number % 4 == 3:
            row = {"product": product, "quantity": chance.randint(5, 15), "at": seconds(after)}
            topics["shipments"].append(row)
            continue
        name = f"{product}-{after}"
        sale = {"sale": name, "product": product, "quantity": chance.randint(1, 4)}
        topics["sales"] += [{**sale, "at": seconds(after)}] * chance.choice((1, 1, 2))
        paid = after + chance.choice((600, 1801, 3599, 3601, 7200, 0))
        if paid > after:
            topics["payments"].append({"sale": name, "amount": number, "at": seconds(paid)})
    for rows in topics.values():
        chance.shuffle(rows)
    return topics


def late_payments(topics: dict[str, list[dict]], end_h: float) -> list[dict]:
    """Take out the payments of a later update."""
    end = DAY + timedelta(hours=end_h)
    later = [row for row in topics["payments"] if time_of(row) >= end]
    topics["payments"] = [row for row in topics["payments"] if time_of(row) < end]
    return later


def test_each_program_gives_what_a_plain_computation_gives(pipeline: Pipeline) -> None:
    chance = random.Random(7)
    lines = ["To be, or not to be", "that is the question"]
    events = merged(make_events(chance, 10, 14), make_last())
    update(pipeline, lines, events)
    assert_results(pipeline, lines, events)


def test_an_update_continues_from_the_state_of_the_last_and_drops_late_events(
    pipeline: Pipeline,
) -> None:
    chance = random.Random(8)
    lines = ["To be, or not to be", "that is the question"], ["be that as it may"]
    first, second = make_events(chance, 10, 14), make_events(chance, 14, 18)
    second["payments"] += late_payments(first, 14)
    second = merged(second, make_last())
    too_late = {"sale": "late", "product": "tea", "quantity": 1, "at": seconds(3600)}
    again = [sale for sale in first["sales"] if sale["product"] == "milk"]

    update(pipeline, lines[0], first)
    updated = update(pipeline, lines[1], merged(second, {"sales": [too_late, *again]}))
    assert updated.flows["write_invoices"].late_rows >= 1
    assert updated.flows["order_sales"].late_rows >= 2
    assert_results(pipeline, lines[0] + lines[1], merged(first, second))


def merged(*given: dict[str, list[dict]]) -> dict[str, list[dict]]:
    topics = defaultdict(list)
    for events in given:
        for topic, rows in events.items():
            topics[topic] += rows
    return topics


def assert_results(pipeline: Pipeline, lines: list[str], events: dict[str, list[dict]]) -> None:
    assert last_values(pipeline, "word-counts") == words(lines)
    assert values(pipeline, "invoices") == invoices(events)
    assert values(pipeline, "settlements") == settlements(events)
    assert by_product(pipeline, "sales-in-order") == in_order(events)
    orders, prices = stock(events)
    assert by_product(pipeline, "reorders") == orders
    assert by_product(pipeline, "price-adjustments") == prices
    states = Counter(one["state"] for found in orders.values() for one in found)
    assert set(states) == {"ordered", "arrived", "expired"}


def make_last() -> dict[str, list[dict]]:
    """Return events of the next day: what waits for a watermark waits no longer."""
    after = 40 * 3600
    sales = [
        {"sale": f"{name}-last", "product": name, "quantity": 1, "at": seconds(after + number)}
        for number, name in enumerate(PRODUCTS)
    ]
    payments = [{"sale": "none", "amount": 0, "at": seconds(after)}]
    return {
        "sales": sales,
        "payments": payments,
        "shipments": [{"product": "none", "quantity": 9, "at": seconds(after)}],
    }


def update(pipeline: Pipeline, lines: list[str], topics: dict[str, list[dict]]):
    for topic in ("reorders", "price-adjustments"):  # which the sink has in a column
        pipeline.create_topic(topic)
    pipeline.feed("lines", lines)
    for topic, rows in topics.items():
        pipeline.feed(topic, rows, key="product" if "product" in rows[0] else "sale")
    return pipeline.run()


# What topics hold


def values(pipeline: Pipeline, topic: str) -> list[dict]:
    return sorted((record.json for record in pipeline.topic(topic)), key=json.dumps)


def last_values(pipeline: Pipeline, topic: str) -> dict[str, int]:
    return {record.key_text: int(record.text) for record in pipeline.topic(topic)}


def by_product(pipeline: Pipeline, topic: str) -> dict[str, list[dict]]:
    found = defaultdict(list)
    for record in pipeline.topic(topic):
        found[record.key_text].append(record.json)
    return found


# The plain computations


def words(lines: list[str]) -> Counter[str]:
    return Counter(" ".join(lines).lower().replace(",", "").split())


def sales_of(events: dict[str, list[dict]]) -> list[dict]:
    """Return the sales without repetitions, by time."""
    return sorted({row["sale"]: row for row in events["sales"]}.values(), key=time_of)


def invoices(events: dict[str, list[dict]]) -> list[dict]:
    fields = ("sale", "product", "quantity")
    found = [{name: row[name] for name in fields} for row in sales_of(events)]
    return sorted(found, key=json.dumps)


def settlements(events: dict[str, list[dict]]) -> list[dict]:
    payments = {row["sale"]: row for row in events["payments"]}
    found = []
    for sale in sales_of(events):
        payment = payments.get(sale["sale"])
        if payment and time_of(sale) <= time_of(payment) <= time_of(sale) + HOUR:
            row = {"sale": sale["sale"], "state": "paid", "amount": payment["amount"]}
            found.append(row)
        elif not sale["sale"].endswith("-last"):  # those may still be paid
            found.append({"sale": sale["sale"], "state": "unpaid"})
    return sorted(found, key=json.dumps)


def in_order(events: dict[str, list[dict]]) -> dict[str, list[dict]]:
    found = defaultdict(list)
    for sale in sales_of(events):
        if not sale["sale"].endswith("-last"):  # earlier ones may still come
            at = time_of(sale).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            found[sale["product"]].append({**sale, "at": at})
    return found


def stock(events: dict[str, list[dict]]) -> tuple[dict[str, list[dict]], dict[str, list[dict]]]:
    orders, prices = defaultdict(list), defaultdict(list)
    for product in (*PRODUCTS, "none"):
        pieces, expires = 0, None
        for row in sorted([*sales_of(events), *events["shipments"]], key=time_of):
            if row["product"] != product:
                continue
            if expires and time_of(row) > expires:
                at_ms = int(expires.timestamp() * 1000)
                orders[product].append({"product": product, "state": "expired", "at_ms": at_ms})
                expires = None
            change = -row["quantity"] if "sale" in row else row["quantity"]
            was_little, pieces = pieces < LITTLE, pieces + change
            if change < 0 and pieces < LITTLE and not expires:
                new = {"product": product, "state": "ordered", "pieces": ENOUGH - pieces}
                orders[product].append(new)
                expires = time_of(row) + HOUR
            elif change > 0 and expires:
                orders[product].append({"product": product, "state": "arrived", "pieces": change})
                expires = None
            if was_little != (pieces < LITTLE):
                percent = 110 if pieces < LITTLE else 100
                prices[product].append({"product": product, "percent": percent})
    return orders, prices
