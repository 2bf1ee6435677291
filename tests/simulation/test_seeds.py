"""Seeds of the simulation: the whole broker, and one log on a bad disk.

A failing seed is replayed with `kavka simulate --seed N`.
"""

from __future__ import annotations

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
    ("seed", "storage"),
    [
        pytest.param(148, False, id="retries after a clean restart were written again"),
        pytest.param(12, True, id="a segment survived though the one before lost its end"),
        pytest.param(605, True, id="a segment that recovery had cut grew back"),
        pytest.param(699, True, id="a segment was deleted before it was sealed behind a queue"),
        pytest.param(2686, True, id="a flush before a queued write lost the file's name"),
        pytest.param(4070, True, id="a flush before an inline write lost the file's name"),
    ],
)
def test_seeds_that_once_failed(seed: int, storage: bool) -> None:
    report = play(seed, storage=storage)
    assert report.passed, f"{report.story}\n{report.summary()}"


@pytest.mark.parametrize("seed", [0, 7, 148])
def test_a_broker_run_is_the_same_twice(seed: int) -> None:
    assert play(seed).story.digest() == play(seed).story.digest()
