"""Tests of {{name}}: `kavka pipelines test`, or pytest."""

from kavka.pipelines.testing import Pipeline, Record

ANN, BOB = b"ann", b"bob"


def test_orders_have_the_customer_of_their_time(pipeline: Pipeline) -> None:
    def customers(*changes: tuple[bytes, object]) -> None:
        pipeline.feed("{{name}}-customers", [Record(value, key) for key, value in changes])

    def order(number: str, customer: str, amount: float) -> None:
        row = {"id": number, "customer": customer, "amount": amount}
        pipeline.feed("{{name}}-orders", [row], key="customer")

    customers((ANN, {"name": "Ann", "country": "IT"}), (BOB, {"name": "Bob", "country": "NO"}))
    order("1", "ann", 10)
    order("2", "cy", 20)
    pipeline.run()
    assert enriched(pipeline) == {"1": ("Ann", "IT")}
    [unknown] = pipeline.topic("{{name}}-unmatched")
    assert unknown.json == {"id": "2", "customer": "cy", "amount": 20}

    customers((ANN, {"name": "Ann", "country": "CH"}), (BOB, None))
    order("3", "ann", 30)
    order("4", "bob", 40)
    pipeline.feed("{{name}}-orders", ["no JSON"])
    pipeline.run()
    assert enriched(pipeline) == {"1": ("Ann", "IT"), "3": ("Ann", "CH")}
    values = {record.text for record in pipeline.topic("{{name}}-unmatched")[1:]}
    assert values == {"no JSON", '{"id":"4","customer":"bob","amount":40}'}
    assert pipeline.table("orders_by_country", "country", "orders") == [
        {"country": "CH", "orders": 1},
        {"country": "IT", "orders": 1},
    ]


def enriched(pipeline: Pipeline) -> dict[str, tuple[str, str]]:
    """Return name and country by the order's number."""
    rows = [record.json for record in pipeline.topic("{{name}}-enriched")]
    return {row["id"]: (row["name"], row["country"]) for row in rows}
