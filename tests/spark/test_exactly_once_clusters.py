"""The failure table of the exactly-once sink where tasks run in executors: these die, and tasks have two attempts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.spark.killing import executor_of, is_executor, kill_all, processes_below
from support.spark.places import MakePlace, Master, Sessions
from support.spark.standalone import HOSTS, Standalone, run_standalone

pytestmark = [pytest.mark.spark, pytest.mark.compat, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with run_standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture
def standalone(running_cluster: Standalone, sessions: Sessions) -> Iterator[Standalone]:
    """A cluster with room for one session."""
    yield running_cluster
    sessions.end_at(running_cluster.url)


def test_executors_may_die_while_they_write_and_when_they_have_written(place: MakePlace) -> None:
    """One in the middle of a task, then all when only the decision is left."""
    at = place(master=Master.local_cluster(), per_trigger=1200)
    for step in ("begun-0", "checked"):
        at.watch.hold(step)
    job = at.start()
    job.wait_for("begun-0")
    kill_all(executor_of(at.watch.process("begun-0")))
    at.watch.release("begun-0")
    job.wait_for("checked")
    executors = [pid for pid, line in job.spark.processes().items() if is_executor(line)]
    assert executors
    kill_all(*executors)
    at.watch.release("checked")
    assert job.finish() == 0, job.text()
    assert at.watch.count("begun-0") > 1
    assert at.open_transactions() == []
    at.assert_exact()


@pytest.mark.long
@pytest.mark.parametrize("transform", ["shuffled", "random_split"])
def test_an_executor_may_die_with_what_others_read_from_it(
    place: MakePlace, transform: str
) -> None:
    """Its part of a shuffle is gone, so the stage before is run again; with rows drawn by lot, the whole batch is."""
    at = place(master=Master.local_cluster(), transform=transform, restarts=5)
    steps = (("begun-0", 1), ("prepared-1", 2))
    for step, number in steps:
        at.watch.hold(step, number)
    job = at.start(settings={"spark.sql.adaptive.enabled": "false"})  # two tasks
    for step, number in steps:
        job.wait_for(step, number)
        kill_all(executor_of(at.watch.process(step, number)))
        at.watch.release(step, number)
    assert job.finish() == 0, job.text()
    assert at.open_transactions() == []
    at.assert_exact()


@pytest.mark.long
def test_executor_worker_and_driver_of_a_standalone_cluster_may_die(
    place: MakePlace, standalone: Standalone
) -> None:
    """An executor, a machine with all that runs there, and the driver while executors write for it."""
    at = place(master=Master.standalone(standalone.url))
    for step, number in (("begun-0", 1), ("prepared-1", 2), ("written-0", 3)):
        at.watch.hold(step, number)
    job = at.start()
    job.wait_for("begun-0", 1)
    kill_all(executor_of(at.watch.process("begun-0", 1)))
    at.watch.release("begun-0", 1)
    job.wait_for("prepared-1", 2)
    machine = _machine_of(standalone, at.watch.process("prepared-1", 2))
    worker = standalone.worker(machine)
    kill_all(worker, *processes_below(worker))
    at.watch.release("prepared-1", 2)
    standalone.start_worker(machine)
    job.wait_for("written-0", 3)
    job.kill()
    at.watch.release("written-0", 3)
    at.run()
    assert at.open_transactions() == []
    at.assert_exact()


@pytest.mark.long
def test_of_two_attempts_of_a_slow_task_one_counts(
    place: MakePlace, standalone: Standalone
) -> None:
    """Spark starts a second attempt elsewhere and ends the first, which has written, or prepared its transaction."""
    at = place(master=Master.standalone(standalone.url, speculation=True))
    for step, number in (("written-0", 1), ("prepared-1", 2)):
        at.watch.hold(step, number)
    job = at.start()
    job.wait_for("prepared-0", 1)  # by the second attempt
    assert at.watch.process("prepared-0", 1) != at.watch.process("written-0", 1)
    job.wait_for("prepared-1", 3)
    assert at.watch.process("prepared-1", 3) != at.watch.process("prepared-1", 2)
    assert job.finish() == 0, job.text()
    assert at.open_transactions() == []
    at.assert_exact()


def _machine_of(standalone: Standalone, process: int) -> str:
    return next(host for host in HOSTS if process in processes_below(standalone.worker(host)))
