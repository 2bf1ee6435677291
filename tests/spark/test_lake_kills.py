"""The lake sink exactly once: its driver, its workers and its JVM die at each step; every offset is there once."""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kavka.ids import TopicPartition
from kavka.lake.catalogs import open_catalog, parse_identifier
from kavka.lake.orphans import remove_orphans
from kavka.lake.sink_state import sinks_of
from support.spark.exactly_once_job import FAILED
from support.spark.killing import Watch, fill

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from support.spark.places import MakePlace, Place

pytestmark = [pytest.mark.spark, pytest.mark.compat, pytest.mark.timeout(600)]

KILLS = int(os.environ.get("KAVKA_LAKE_KILLS", "100"))
SEED = int(os.environ.get("KAVKA_LAKE_SEED", str(random.SystemRandom().randrange(2**32))))
TASK_STEPS = ("begun-0", "written-1")
DRIVER_STEPS = ("planned", "committing", "staged", "swapped", "committed")
ROWS = 600
"""Records in each of the two partitions of the source."""


def load(place: MakePlace, directory: Path, **job: Any) -> Place:
    """Make a load into the table lake.rows, in three batches."""
    at = place(**{"transform": "lake_rows", "lake": str(directory / "lake"), **job})
    return replace(at, job=replace(at.job, target="lake.rows"))


def table(at: Place) -> Table:
    return open_catalog({"warehouse": at.job.lake}).load_table(at.job.target)


def offsets(at: Place) -> Counter[tuple[int, int]]:
    rows = table(at).scan(selected_fields=("partition", "offset")).to_arrow()
    return Counter(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))


def assert_each_offset_once(at: Place, count: int = ROWS) -> None:
    found = offsets(at)
    wanted = {(partition, offset) for partition in (0, 1) for offset in range(count)}
    missing, doubled = wanted - set(found), {one for one, times in found.items() if times > 1}
    assert not missing, f"{len(missing)} missing: {sorted(missing)[:5]}"
    assert not doubled, f"{len(doubled)} doubled: {sorted(doubled)[:5]}"
    assert set(found) == wanted
    (state,) = sinks_of(table(at).properties).values()
    assert state.ends == {TopicPartition("in", 0): count, TopicPartition("in", 1): count}


def assert_no_file_of_a_failed_attempt_stays(at: Place) -> None:
    """All attempts are of batches that are decided, so maintenance knows their files by their names."""
    name = parse_identifier(at.job.target)
    remove_orphans(open_catalog({"warehouse": at.job.lake}), name, older_than_ms=0)
    needed = {task.file.file_path for task in table(at).scan().plan_files()}
    assert set(map(str, Path(at.job.lake).rglob("data/**/*.parquet"))) == needed


def committed_batches(at: Place) -> list[str]:
    summaries = [one.summary.additional_properties for one in table(at).snapshots()]
    return [one["kavka.batch-id"] for one in summaries]


def test_a_driver_that_dies_between_the_commit_and_sparks_note_of_it_finds_the_batch(
    place: MakePlace, tmp_path: Path
) -> None:
    at = load(place, tmp_path, restarts=2, per_trigger=600)
    at.watch.die("written-0", 1)
    at.watch.die("swapped", 1)
    at.run()
    assert_each_offset_once(at)
    assert committed_batches(at) == ["0", "1"]
    assert_no_file_of_a_failed_attempt_stays(at)


@pytest.mark.long
@pytest.mark.parametrize("step", [*TASK_STEPS, *DRIVER_STEPS])
def test_a_worker_may_die_at_each_step(place: MakePlace, tmp_path: Path, step: str) -> None:
    at = load(place, tmp_path, restarts=3)
    for number in (1, 2):
        at.watch.die(step, number)
    at.run()
    assert_each_offset_once(at)
    assert committed_batches(at) == ["0", "1", "2"]
    assert_no_file_of_a_failed_attempt_stays(at)


@pytest.mark.long
@pytest.mark.parametrize("step", [*TASK_STEPS, *DRIVER_STEPS])
def test_the_jvm_and_all_its_processes_may_die_at_each_step(
    place: MakePlace, tmp_path: Path, step: str
) -> None:
    at = load(place, tmp_path)
    at.watch.hold(step, 2)
    job = at.start()
    job.wait_for(step, 2)
    job.kill()
    at.run()
    assert_each_offset_once(at)
    assert committed_batches(at) == ["0", "1", "2"]
    assert_no_file_of_a_failed_attempt_stays(at)


@pytest.mark.long
def test_of_two_runs_of_a_query_each_batch_is_committed_by_one(
    place: MakePlace, tmp_path: Path
) -> None:
    at = load(place, tmp_path)
    at.watch.hold("committing", 2)
    first = at.start()
    first.wait_for("committing", 2)
    at.run(watch=str(Watch(at.directory / "second").directory))
    assert_each_offset_once(at)
    at.watch.release("committing", 2)
    assert first.finish() == FAILED
    assert_each_offset_once(at)


@pytest.mark.long
def test_a_deleted_checkpoint_is_noticed(place: MakePlace, tmp_path: Path) -> None:
    at = load(place, tmp_path)
    at.run()
    (at.directory / "checkpoint").rename(at.directory / "old")
    job = at.start()
    assert job.finish() == FAILED
    assert "onNewCheckpoint" in job.text()
    assert_each_offset_once(at)


@pytest.mark.long
@pytest.mark.timeout(1200 + 60 * KILLS)
def test_each_offset_is_there_once_after_random_kills(place: MakePlace, tmp_path: Path) -> None:
    """Python workers, those that plan, write and commit, and the JVM with all of them, KAVKA_LAKE_KILLS times."""
    rng = random.Random(SEED)
    print(f"\nkills of a lake load: kills={KILLS} seed={SEED}", file=sys.stderr)
    begin_s = time.monotonic()
    at = load(place, tmp_path, until=str(tmp_path / "stop"), per_trigger=100)
    killed: Counter[str] = Counter()
    count = ROWS
    job = at.start()
    while killed.total() < KILLS:
        more = rng.randrange(20, 60)
        fill(at.cluster.bootstrap, "in", 2, map(str, range(2 * more)))
        count += more
        step = rng.choice([*TASK_STEPS, *DRIVER_STEPS])
        number = at.watch.count(step) + 1
        if rng.random() < 0.85:
            at.watch.die(step, number)
            job.wait_for(step, number)
            killed[f"worker at {step}"] += 1
        else:
            at.watch.hold(step, number)
            job.wait_for(step, number)
            job.kill()
            at.watch.release(step, number)
            killed[f"JVM at {step}"] += 1
            job = at.start()
        done, passed_s = killed.total(), time.monotonic() - begin_s
        left_s = passed_s / done * (KILLS - done)
        print(
            f"{done} of {KILLS} kills after {passed_s:.0f} s, {left_s:.0f} s left: {dict(killed)}",
            file=sys.stderr,
            flush=True,
        )
    Path(at.job.until).touch()
    assert job.finish(1200) == 0, job.text()
    assert_each_offset_once(at, count)
    numbers = list(map(int, committed_batches(at)))
    assert numbers == sorted(set(numbers))
    assert_no_file_of_a_failed_attempt_stays(at)
