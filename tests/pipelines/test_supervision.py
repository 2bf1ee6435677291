"""The times at which failed flows start again and views are refreshed."""

from kavka.pipelines.supervision import RefreshSchedule, Restarts


def test_every_flow_is_started_once():
    restarts = Restarts(["a", "b"], 0)
    assert restarts.due(0) == ["a", "b"]
    assert restarts.due(10_000) == []


def test_some_flows_are_started_at_a_time():
    restarts = Restarts(["a", "b", "c"], 0)
    assert restarts.due(0, 2) == ["a", "b"]
    assert restarts.due(0, 0) == []
    assert restarts.due(0, -1) == []
    assert restarts.due(0, 1) == ["c"]


def test_the_back_off_doubles_up_to_a_minute():
    restarts = Restarts(["a"], 0)
    waits = []
    for _ in range(8):
        restarts.due(10**9)
        waits.append(restarts.failed("a", 0))
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


def test_a_failed_flow_is_due_after_its_back_off_and_others_are_not_touched():
    restarts = Restarts(["a", "b"], 0)
    restarts.due(0)
    restarts.failed("a", 5_000)
    assert restarts.due(5_999) == []
    assert restarts.due(6_000) == ["a"]


def test_a_batch_lets_the_back_off_begin_again():
    restarts = Restarts(["a"], 0)
    restarts.failed("a", 0)
    restarts.failed("a", 0)
    restarts.record_batch("a")
    restarts.record_batch("not a flow of this run")
    assert restarts.failed("a", 0) == 1_000


def test_views_are_refreshed_at_first_and_then_when_flows_have_made_batches():
    schedule = RefreshSchedule(5_000)
    assert schedule.is_due(0, {"a": 0})
    schedule.refreshed(100, {"a": 0}, failed=False)
    assert not schedule.is_due(5_099, {"a": 1})
    assert not schedule.is_due(9_000, {"a": 0})
    assert schedule.is_due(5_100, {"a": 1})


def test_batches_made_while_a_refresh_ran_count_for_the_next():
    schedule = RefreshSchedule(1_000)
    schedule.refreshed(100, {"a": 3}, failed=False)
    assert schedule.is_due(1_100, {"a": 4})


def test_a_refresh_that_failed_is_tried_again_later_and_later():
    schedule = RefreshSchedule(1_000)
    schedule.refreshed(0, {"a": 1}, failed=True)
    assert not schedule.is_due(1_999, {"a": 1})
    assert schedule.is_due(2_000, {"a": 1})
    schedule.refreshed(2_000, {"a": 1}, failed=True)
    assert not schedule.is_due(5_999, {"a": 1})
    assert schedule.is_due(6_000, {"a": 1})
