"""Seeds of the simulation: the whole broker, and one log on a bad disk.

A failing seed is replayed with `kavka simulate --seed N`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kavka.testing.simulation.batch import Batch, play, run_batches
from kavka.testing.simulation.marks import BROKER_MARKS, STORAGE_MARKS

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(900)]

BROKER_SEEDS = range(500)
STORAGE_SEEDS = range(600)


def outcome(batch: Batch) -> str:
    return "\n".join(batch.failed.values())


def test_every_promise_holds_in_500_seeds_of_the_broker_and_every_mark_is_hit() -> None:
    batch = run_batches(BROKER_SEEDS)
    assert batch.seeds == len(BROKER_SEEDS)
    assert not batch.failed, outcome(batch)
    assert {mark.name for mark in BROKER_MARKS} - batch.marks == set()


def test_logs_recover_in_600_seeds_of_bad_disks_and_every_mark_is_hit() -> None:
    batch = run_batches(STORAGE_SEEDS, storage=True)
    assert batch.seeds == len(STORAGE_SEEDS)
    assert not batch.failed, outcome(batch)
    assert {mark.name for mark in STORAGE_MARKS} - batch.marks == set()


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(12, id="a segment survived though the one before lost its end"),
        pytest.param(605, id="a segment that recovery had cut grew back"),
        pytest.param(699, id="a segment was deleted before it was sealed behind a queue"),
        pytest.param(2686, id="a flush before a queued write lost the file's name"),
        pytest.param(4070, id="a flush before an inline write lost the file's name"),
    ],
)
def test_storage_seeds_that_once_failed(seed: int) -> None:
    report = play(seed, storage=True)
    assert report.passed, f"{report.story}\n{report.summary()}"


DIGESTS = (
    "from kavka.testing.simulation.batch import play; print([play(s).story.digest() for s in {}])"
)


def test_a_broker_run_is_the_same_in_processes_with_other_hash_seeds() -> None:
    seeds = [0, 7, 148]
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGESTS.format(seeds)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    assert digests == {f"{[play(seed).story.digest() for seed in seeds]}\n"}
