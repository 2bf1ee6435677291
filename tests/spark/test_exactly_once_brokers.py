"""The failure table of the exactly-once sink on three brokers: coordinators and the controller die in a batch."""

from __future__ import annotations

import pytest

from kavka.wire.messages.metadata import MetadataRequest
from kavka_compat.asking import ask, until
from kavka_compat.killable import KillableCluster
from support.spark.places import TWO_PHASE, MakePlace

pytestmark = [pytest.mark.spark, pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(900)]

SINK = "sink"
REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


@pytest.mark.parametrize("two_phase", [True, False])
def test_coordinators_and_the_controller_may_die_and_the_query_goes_on(
    place: MakePlace, two_phase: bool
) -> None:
    """Each is killed at a step of a batch of its own, which is written while the broker is away."""
    settings = REPLICATED | (TWO_PHASE if two_phase else {})
    at = place(settings, brokers=3, per_trigger=200, write={"sinkId": SINK})
    cluster = at.cluster
    assert isinstance(cluster, KillableCluster)

    def coordinator_of_the_driver() -> int:
        return cluster.coordinator_of_transactions(f"{SINK}-driver")

    def coordinator_of_a_task() -> int:
        return cluster.coordinator_of_transactions(sorted(at.open_transactions())[0])

    steps = (
        ("fenced", coordinator_of_the_driver),
        ("prepared-1", coordinator_of_a_task),
        ("decided", coordinator_of_a_task),
        ("ended", coordinator_of_the_driver),
        ("checked", lambda: _controller(cluster)),
    )
    for number, (step, _) in enumerate(steps, 1):
        at.watch.hold(step, number)
    job = at.start()
    for number, (step, victim) in enumerate(steps, 1):
        job.wait_for(step, number)
        killed = victim()
        cluster.kill(killed)
        at.watch.release(step, number)
        job.wait_for("noted", number)
        cluster.start(killed)
    assert job.finish() == 0, job.text()
    assert at.open_transactions() == []
    at.assert_exact()


def _controller(cluster: KillableCluster) -> int:
    found = -1

    def is_known() -> bool:
        nonlocal found
        found = ask(cluster.bootstrap.split(",")[0], MetadataRequest(topics=[])).controller_id
        return found >= 0

    until(is_known, what="a controller")
    return found
