"""The failure table of the exactly-once sink: real Spark, a real broker, kill -9; each record once in the end."""

from __future__ import annotations

from collections import Counter

import pytest

from kavka.client.blocking import Admin
from support.spark.exactly_once_job import FAILED, IN_SMALL_PIECES
from support.spark.killing import Watch, assert_each_once, fill
from support.spark.places import TWO_PHASE, VALUES, MakePlace, Master
from support.spark.topic_filling import make_topic_at

pytestmark = [pytest.mark.spark, pytest.mark.compat, pytest.mark.timeout(900)]

KAVKA = pytest.param("", id="kavka")
"""Our broker; others are named by their release."""
APACHE = pytest.param("3.9", id="apache-3.9", marks=pytest.mark.long)


@pytest.mark.long
@pytest.mark.parametrize("apache", ["", "3.9"], ids=["kavka", "apache-3.9"])
def test_a_driver_that_dies_between_two_commits_has_its_batch_completed_whatever_the_split(
    place: MakePlace, apache: str
) -> None:
    at = place(apache=apache, transform="random_split")
    at.kill_between_two_ends()
    at.run()
    assert at.watch.count("rolled-forward") == 1
    assert at.open_transactions() == []
    at.assert_exact()


GAPS = ["listed", "fenced", "planned", "checked", "decided", "ended-0", "ended", "noted"]


@pytest.mark.long
@pytest.mark.parametrize("two_phase", [True, False])
def test_the_drivers_process_may_die_in_each_gap(place: MakePlace, two_phase: bool) -> None:
    """The process of Spark's driver that plans or commits is killed at one step after the other; the query fails."""
    settings = TWO_PHASE if two_phase else {}
    at = place(settings, transform="random_split", per_trigger=100, restarts=len(GAPS) + 6)
    for number, gap in enumerate(GAPS, 1):
        at.watch.die(gap, number)
    at.run()
    assert [at.watch.has(gap, number) for number, gap in enumerate(GAPS, 1)] == [True] * len(GAPS)
    at.assert_exact()
    assert at.open_transactions() == []


@pytest.mark.long
@pytest.mark.parametrize("gap", ["prepared-0", "decided", "noted"])
def test_the_whole_driver_may_die(place: MakePlace, gap: str) -> None:
    """All processes are killed, the JVM too, in the second batch, which is written again if it was not decided."""
    at = place(transform="random_split")
    at.watch.hold(gap, 2)
    job = at.start()
    job.wait_for(gap, 2)
    job.kill()
    at.run()
    assert at.watch.count("begun-0") == (4 if gap == "prepared-0" else 3)
    assert at.open_transactions() == []
    at.assert_exact()


@pytest.mark.long
def test_a_driver_may_die_while_it_completes_what_another_has_decided(place: MakePlace) -> None:
    at = place(transform="random_split")
    at.kill_between_two_ends()
    for step in ("fenced", "rolled-forward"):
        number = at.watch.count(step) + 1
        at.watch.hold(step, number)
        job = at.start()
        job.wait_for(step, number)
        job.kill()
    at.run()
    at.assert_exact()


@pytest.mark.long
def test_another_number_of_tasks_after_a_restart_changes_nothing(place: MakePlace) -> None:
    at = place(transform="shuffled")
    two = {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"}
    five = {"spark.sql.shuffle.partitions": "5", "spark.sql.adaptive.enabled": "false"}
    at.kill_between_two_ends(settings=two)
    at.run(settings=five)
    at.assert_exact()


@pytest.mark.long
def test_a_worker_of_python_may_die_at_each_step_of_a_task(place: MakePlace) -> None:
    at = place(master=Master.local(attempts=4))
    for step, number in (("begun-0", 1), ("written-1", 2), ("prepared-0", 3), ("prepared-1", 3)):
        at.watch.die(step, number)
    at.run()
    assert at.watch.count("prepared-0") > 3
    assert at.open_transactions() == []
    at.assert_exact()


@pytest.mark.long
def test_a_task_that_fails_is_repeated_in_another_transaction(place: MakePlace) -> None:
    """To the sink, the rows of a task that fails before it seem to end: it prepares them, and they must not count."""
    at = place(transform="failing_at_times", master=Master.local(attempts=4))
    at.run(settings=IN_SMALL_PIECES)
    assert at.watch.count("begun-0") == 6
    assert at.watch.count("decided") == 3
    assert at.open_transactions() == []
    at.assert_exact()


@pytest.mark.long
@pytest.mark.parametrize("apache", [KAVKA, APACHE])
def test_a_broker_may_die_at_each_step(place: MakePlace, apache: str) -> None:
    at = place(apache=apache)
    steps = (("fenced", 1), ("begun-0", 1), ("prepared-1", 2), ("decided", 2), ("ended-0", 3))
    for step, number in steps:
        at.watch.hold(step, number)
    job = at.start()
    for step, number in steps:
        job.wait_for(step, number)
        at.cluster.kill(0)
        at.watch.release(step, number)
        at.cluster.start(0)
    assert job.finish() == 0, job.text()
    at.assert_exact()


@pytest.mark.long
def test_a_decision_outlives_time_outs_where_brokers_offer_two_phase_commit(
    place: MakePlace,
) -> None:
    at = place(TWO_PHASE, transform="random_split")
    at.kill_between_two_ends()
    with Admin({"bootstrap.servers": at.cluster.bootstrap}) as admin:
        (name,) = at.open_transactions()
        (found,) = admin.describe_transactions([name]).values()
    assert found.timeout_ms == 2**31 - 1
    at.run()
    at.assert_exact()


SHORT = {"kafka.transaction.timeout.ms": "20000"}


@pytest.mark.long
@pytest.mark.parametrize("apache", [KAVKA, APACHE])
def test_a_part_that_timed_out_after_the_decision_is_written_again_when_the_batch_is_the_same(
    place: MakePlace, apache: str
) -> None:
    at = place(apache=apache, write=SHORT)
    at.kill_between_two_ends()
    at.wait_until_aborted()
    at.run()
    at.assert_exact()


@pytest.mark.long
@pytest.mark.parametrize("apache", [KAVKA, APACHE])
def test_a_part_that_timed_out_after_the_decision_stops_a_query_whose_batch_is_another(
    place: MakePlace, apache: str
) -> None:
    at = place(apache=apache, write=SHORT, transform="random_split")
    at.kill_between_two_ends()
    at.wait_until_aborted()
    before = sorted(at.found())
    job = at.start()
    assert job.finish() == FAILED
    assert "the batch is not the same when it is run again" in job.text()
    assert sorted(at.found()) == before


@pytest.mark.long
@pytest.mark.parametrize("step", ["begun-0", "checked", "decided"])
def test_of_two_runs_at_once_the_later_one_goes_on_and_the_other_stops(
    place: MakePlace, step: str
) -> None:
    at = place()
    at.watch.hold(step, 2)
    first = at.start()
    first.wait_for(step, 2)
    at.run(watch=str(Watch(at.directory / "second").directory))
    at.assert_exact()
    at.watch.release(step, 2)
    assert first.finish() == FAILED
    at.assert_exact()


@pytest.mark.long
def test_a_checkpoint_that_was_deleted_is_noticed(place: MakePlace) -> None:
    at = place()
    at.run()
    (at.directory / "checkpoint").rename(at.directory / "old")
    job = at.start()
    assert job.finish() == FAILED
    assert "onNewCheckpoint" in job.text()
    at.assert_exact()
    at.run(write={"onNewCheckpoint": "reset"})
    assert_each_once(at.found(), VALUES * 2)


def test_tasks_and_batches_without_rows_open_no_transaction(place: MakePlace) -> None:
    at = place(transform="sometimes_nothing", per_trigger=200)
    at.run()
    wanted = [
        value for number, value in enumerate(VALUES) if number % 2 == 0 and int(value) % 1000 < 100
    ]
    assert_each_once(at.found(), wanted)
    assert at.watch.count("planned") == 6
    assert 0 < at.watch.count("decided") < 6
    assert at.watch.count("begun-1") == 0


# From topic to topic


@pytest.mark.long
def test_words_are_counted_once_whatever_dies(place: MakePlace) -> None:
    """All counts are written with each batch: once for each of the five, growing, up to the true ones."""
    at = place(transform="word_count", restarts=10, per_trigger=200, write={"kafka.linger.ms": "5"})
    words = [f"w{number % 7} w{number % 3}" for number in range(1000)]
    make_topic_at(at.cluster.bootstrap, "lines", 2)
    fill(at.cluster.bootstrap, "lines", 2, words)
    for step, number in (("checked", 1), ("decided", 2), ("ended-0", 3), ("noted", 4)):
        at.watch.die(step, number)
    at.run(source="lines")
    counts: dict[bytes, list[int]] = {}
    for key, value in at.found():
        counts.setdefault(key, []).append(int(value))
    truth = Counter(word.encode() for line in words for word in line.split())
    assert {key: seen[-1] for key, seen in counts.items()} == truth
    assert all(len(seen) == 5 and seen == sorted(seen) for seen in counts.values())


@pytest.mark.long
def test_a_step_that_draws_lots_gives_one_of_its_results_for_each_record(place: MakePlace) -> None:
    at = place(transform="enriched", restarts=10, per_trigger=200)
    for step, number in (("checked", 1), ("decided", 2), ("ended-1", 3), ("noted", 4)):
        at.watch.die(step, number)
    at.run()
    results = [value.split(b":") for _, value in at.found()]
    assert_each_once([(b"", value) for value, _ in results], VALUES)
    assert {lot for _, lot in results} == {b"0", b"1", b"2"}


@pytest.mark.long
def test_the_group_shows_how_far_the_query_is(place: MakePlace) -> None:
    at = place(read={"groupId": "job"}, per_trigger=200)
    at.run()
    with Admin({"bootstrap.servers": at.cluster.bootstrap}) as admin:
        offsets = admin.list_group_offsets("job")
    assert {one.partition: committed.offset for one, committed in offsets.items()} == {
        0: 600,
        1: 600,
    }
    at.assert_exact()


# Data frames


@pytest.mark.long
def test_a_data_frame_is_completed_after_a_crash_and_not_written_twice(place: MakePlace) -> None:
    at = place(is_batch=True, write={"sinkId": "daily", "writeId": "monday"})
    at.watch.hold("ending-1")
    job = at.start()
    job.wait_for("ending-1")
    job.wait_for("ended-0")
    job.kill()
    at.run()
    at.assert_exact()
    assert at.open_transactions() == []
    at.run(write={"sinkId": "daily", "writeId": "tuesday"})
    assert_each_once(at.found(), VALUES * 2)
