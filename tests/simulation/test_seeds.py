"""Seeds of the simulation: the whole broker, a whole cluster, and one log on a bad disk.

A failing seed is replayed with `kavka simulate --seed N`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection

import pytest

from kavka.simulation.batch import Batch, Kind, play, run_batches
from kavka.simulation.marks import BROKER_MARKS, CLUSTER_MARKS, STORAGE_MARKS, Mark

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(900)]

BROKER_SEEDS = range(60)
FIRST_CLUSTER_SEED = 200
CLUSTER_SEEDS = range(FIRST_CLUSTER_SEED, FIRST_CLUSTER_SEED + 12)
STORAGE_SEEDS = range(120)
SEEDS_AT_ONCE, MAX_SEEDS = 60, 600
"""With marks: seeds are played until each situation was met, the rarest in one of a hundred seeds."""


def outcome(batch: Batch) -> str:
    return "\n".join(batch.failed.values())


def passed(seeds: range, kind: Kind) -> Batch:
    batch = run_batches(seeds, kind)
    assert batch.seeds == len(seeds)
    assert not batch.failed, outcome(batch)
    return batch


@pytest.mark.parametrize(
    ("seeds", "kind"),
    [(BROKER_SEEDS, Kind.BROKER), (CLUSTER_SEEDS, Kind.CLUSTER), (STORAGE_SEEDS, Kind.STORAGE)],
)
def test_no_invariant_is_violated(seeds: range, kind: Kind) -> None:
    passed(seeds, kind)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "marks"),
    [
        (Kind.BROKER, BROKER_MARKS),
        (Kind.CLUSTER, CLUSTER_MARKS),
        (Kind.STORAGE, STORAGE_MARKS),
    ],
)
def test_seeds_meet_every_situation(kind: Kind, marks: Collection[Mark]) -> None:
    wanted = {mark.name for mark in marks}
    first = FIRST_CLUSTER_SEED
    for begin in range(first, first + MAX_SEEDS, SEEDS_AT_ONCE):
        wanted -= passed(range(begin, begin + SEEDS_AT_ONCE), kind).marks
        if not wanted:
            return
    assert wanted == set()


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(4, id="a deposed controller wrote through the next session of its broker"),
        pytest.param(19, id="a follower that registered again was never in sync again"),
        pytest.param(23, id="a leader that had died led on in the same epoch"),
        pytest.param(34, id="a follower never got the batch of which a part had fitted"),
        pytest.param(65, id="a broker span looking for a controller that is not registered"),
        pytest.param(69, id="a second loss of the session was not heard"),
        pytest.param(216, id="retention met a log that had just begun again"),
        pytest.param(114, id="a deletion of records was undone by a loss of power"),
        pytest.param(123, id="a lone member read nothing for five minutes"),
        pytest.param(3140, id="a member waited a second for each record"),
        pytest.param(4996, id="a leader was sent the target of a move that was not written yet"),
        pytest.param(819, id="more than five batches overtook one that waited at an old leader"),
        pytest.param(3526, id="a deposed coordinator let a transaction continue"),
        pytest.param(3510, id="what was forgotten while it was read was answered without end"),
        pytest.param(2, id="a log directory went offline because a log moved into it"),
        pytest.param(738, id="a broker stopped while directories of new logs were created"),
        pytest.param(
            4236, id="a fetch of a given-up connection arrived late, and its position stayed"
        ),
        pytest.param(7541, id="a broker was deregistered before its logs were written"),
        pytest.param(
            8456, id="a producer was unknown in the epoch that it had begun for the batch"
        ),
        pytest.param(1899, id="a commit of a given-up connection arrived late, and set it back"),
        pytest.param(4210, id="a follower ended just where its leader's log was made to start"),
        pytest.param(9444, id="what came before a snapshot was acknowledged without its replicas"),
        pytest.param(3594, id="a throttled follower dropped an answer and never got it again"),
    ],
)
def test_cluster_seeds_that_once_failed(seed: int) -> None:
    report = play(seed, Kind.CLUSTER)
    assert report.passed, f"{report.trace}\n{report.summary()}"


def test_cluster_run_is_the_same_in_processes_with_other_hash_seeds() -> None:
    digests = {digests_in_a_process([2], Kind.CLUSTER, hash_seed) for hash_seed in ("0", "1")}
    assert digests == {f"{[play(2, Kind.CLUSTER).trace.digest()]}\n"}


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(12, id="a segment survived though the one before lost its end"),
        pytest.param(605, id="a segment that recovery had cut grew back"),
        pytest.param(699, id="a segment was deleted before it was sealed behind a queue"),
        pytest.param(862, id="a later round of retention was durable and an earlier one was not"),
        pytest.param(1102, id="a bit that had flipped in memory was whole after a host crash"),
        pytest.param(
            1233, id="a segment was sealed behind the recovery point, with unsynced indexes"
        ),
        pytest.param(2686, id="a flush before a queued write lost the file's name"),
        pytest.param(3800, id="a round of retention went on though the one before had failed"),
        pytest.param(4070, id="a flush before an inline write lost the file's name"),
    ],
)
def test_storage_seeds_that_once_failed(seed: int) -> None:
    report = play(seed, Kind.STORAGE)
    assert report.passed, f"{report.trace}\n{report.summary()}"


DIGESTS = (
    "from kavka.simulation.batch import Kind, play; "
    "print([play(seed, Kind.{}).trace.digest() for seed in {}])"
)


def digests_in_a_process(seeds: list[int], kind: Kind, hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", DIGESTS.format(kind.name, seeds)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_a_broker_run_is_the_same_in_processes_with_other_hash_seeds() -> None:
    seeds = [0, 7, 148]
    digests = {digests_in_a_process(seeds, Kind.BROKER, hash_seed) for hash_seed in ("0", "1")}
    assert digests == {f"{[play(seed).trace.digest() for seed in seeds]}\n"}
