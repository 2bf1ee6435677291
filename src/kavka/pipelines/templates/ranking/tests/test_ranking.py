"""Tests of {{name}}: `kavka pipelines test`, or pytest."""

from kavka.pipelines.testing import Pipeline


def test_items_are_ranked_by_the_last_vote_of_each_user_and_by_clicks(pipeline: Pipeline) -> None:
    def vote(item: str, **votes: int) -> None:
        rows = [{"user": user, "item": item, "vote": one} for user, one in votes.items()]
        pipeline.feed("{{name}}-votes", rows, key="user")

    def view(item: str, *clicked: bool) -> None:
        pipeline.feed("{{name}}-views", [{"item": item, "clicked": one} for one in clicked])

    vote("tea", ann=1, bob=1, cy=1)
    vote("milk", ann=1, bob=-1)
    view("milk", True, False)
    pipeline.run()
    rows = pipeline.table("ranking", "rank", "item", "up", "down", "clicked", "shown")
    tea = {"item": "tea", "up": 3, "down": 0, "clicked": 0, "shown": 0}
    milk = {"item": "milk", "up": 1, "down": 1, "clicked": 1, "shown": 2}
    assert rows == [{"rank": 1, **tea}, {"rank": 2, **milk}]

    vote("tea", ann=-1, bob=0)
    vote("milk", bob=1)
    view("milk", True)
    pipeline.feed("{{name}}-votes", ['{"user": "dan"}', "no JSON"])
    updated = pipeline.run()
    assert updated.expectations("scores")["a vote"].failed == 2
    rows = pipeline.table("ranking", "rank", "item", "up", "down", "clicked", "shown")
    tea = {"item": "tea", "up": 1, "down": 1, "clicked": 0, "shown": 0}
    milk = {"item": "milk", "up": 2, "down": 0, "clicked": 2, "shown": 3}
    assert rows == [{"rank": 1, **milk}, {"rank": 2, **tea}]

    last = {record.key_text: record.json for record in pipeline.topic("{{name}}-scores")}
    assert {item: one["up"] - one["down"] for item, one in last.items()} == {"tea": 0, "milk": 2}
