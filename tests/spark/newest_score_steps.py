"""The topic of scores when several batches of the table are read as one; a test of the project of `ranking`."""

from kavka.pipelines.testing import Pipeline


def test_the_last_record_of_an_item_is_its_newest_score(pipeline: Pipeline) -> None:
    def vote(user: str, *items: str) -> None:
        rows = [{"user": user, "item": item, "vote": 1} for item in items]
        pipeline.feed("ranking-votes", rows, key="user")
        pipeline.run(refresh=["scores"])

    vote("ann", "tea")
    # Spark reads this larger file before the first one.
    vote("bob", "tea", *(f"item {number}" for number in range(300)))
    assert not pipeline.topic("ranking-scores")
    pipeline.run()
    ups = [record.json["up"] for record in pipeline.topic("ranking-scores") if record.key == b"tea"]
    assert ups == [1, 2]
