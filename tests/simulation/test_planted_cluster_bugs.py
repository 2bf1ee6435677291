"""Bugs of replication and control that are planted on purpose: each must be found, or the simulation proves nothing.

Where the seeds of all models would take long, a bug is hunted under the model that brings about what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from kavka import values
from kavka.broker import group_shell
from kavka.broker.control import controller
from kavka.broker.control.reign import Reign
from kavka.broker.control.writing import Writer, multi_over_settings
from kavka.broker.orders import Orders
from kavka.broker.replication.serving import FollowerFetches
from kavka.core.follower import AskRecords, FollowedPartition, Step, Truncate
from kavka.core.partition import Follower, IsrChange, Partition
from kavka.core.producer_state import ProducerState
from kavka.errors import ErrorCode
from kavka.ids import BrokerId
from kavka.storage.log import Log
from kavka.testing.simulation.brokers.faults import CHURN, NETWORK
from kavka.testing.simulation.brokers.run import ClusterRun
from kavka.testing.simulation.brokers.scenario import ClusterScenario
from kavka.testing.simulation.faults import FaultModel
from kavka.testing.simulation.report import Report

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(600)]


MOST_SEEDS = 1000


class Hunt(NamedTuple):
    """Where a bug is looked for: a model and other choices instead of the seed's own."""

    model: FaultModel | None = None
    changes: dict[str, Any] = {}
    first_seed: int = 0
    """Where the hunt begins, a little before the seed that found the bug when it began at 0."""

    def play(self, seed: int) -> Report:
        """Run one seed."""
        scenario = ClusterScenario.of_cluster(seed)
        changes = dict(self.changes)
        if self.model is not None:
            changes |= {"model": self.model, "broker": scenario.broker | self.model.settings}
        return ClusterRun(seed, replace(scenario, **changes)).run()

    def find(self) -> tuple[int, str]:
        """Run seeds until something breaks. Return the seed, and what it says."""
        for seed in range(self.first_seed, MOST_SEEDS):
            report = self.play(seed)
            if not report.passed:
                return seed, report.broken[0] if report.broken else str(report.failures[0])
        return MOST_SEEDS, "nothing was found"


class Plant:
    """Puts one bug into the product, until the test is over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def commits_without_the_in_sync_set(self) -> None:
        """The leader's own log is enough for its high watermark."""
        self._patch.setattr(Partition, "_replicated_end", lambda partition, end, now_ms: end)

    def acknowledges_before_it_is_replicated(self) -> None:
        """acks=all is answered as acks=1."""

        def acknowledged(partition: Partition, end_offset: int, leader_epoch: int) -> ErrorCode:
            return ErrorCode.NONE if partition.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

        self._patch.setattr(Partition, "acknowledged", acknowledged)

    def truncates_to_the_high_watermark(self) -> None:
        """Followers cut to their high watermark when they begin to follow, and compare no epochs (before KIP-101)."""

        def first_step(followed: FollowedPartition) -> Step | None:
            mark = followed.log.high_watermark
            return Truncate(mark) if followed.log.log_end_offset > mark else None

        ask = FollowedPartition.question

        def question(followed: FollowedPartition, now_ms: int) -> Any:
            asked = ask(followed, now_ms)
            return asked._replace(last_fetched_epoch=-1) if isinstance(asked, AskRecords) else asked

        self._patch.setattr(FollowedPartition, "first_step", first_step)
        self._patch.setattr(FollowedPartition, "question", question)

    def obeys_stale_controllers(self) -> None:
        """A deposed controller goes on, the registry takes what it writes, and brokers obey it."""

        async def multi(writer: Writer, operations: Any) -> None:
            await multi_over_settings(writer._registry, operations)

        def changed(ruler: controller.Controller, _event: Any) -> None:
            if not ruler.is_active:
                ruler._look.set()

        async def stays(reign: Reign) -> None:
            return None

        def renewed(ruler: controller.Controller) -> None:
            if not ruler.is_active:
                ruler._office = None
                ruler._look.set()

        self._patch.setattr(Reign, "_still_in_office", stays)
        self._patch.setattr(controller.Controller, "session_renewed", renewed)
        self._patch.setattr(Writer, "_multi", multi)
        self._patch.setattr(controller.Controller, "_office_changed", changed)
        self._patch.setattr(Orders, "_refusal", lambda orders, who, epoch, broker: ErrorCode.NONE)

    def elects_replicas_that_are_out_of_sync(self) -> None:
        """Unclean elections, although the topics forbid them."""
        settings = controller.controller_settings

        def lenient(broker: Any) -> Any:
            return values.replace(settings(broker), allows_unclean=lambda topic: True)

        self._patch.setattr(controller, "controller_settings", lenient)

    def takes_followers_in_before_they_caught_up(self) -> None:
        """Whoever fetches is proposed for the in-sync set."""

        def propose(
            partition: Partition, replica: BrokerId, follower: Follower
        ) -> IsrChange | None:
            if partition.pending_isr is not None or replica in partition.in_sync_replicas:
                return None
            return partition._propose((*partition.in_sync_replicas, replica))

        self._patch.setattr(Partition, "_propose_growth", propose)
        self._patch.setattr(
            Partition,
            "_holds_back",
            lambda p, broker, follower, now_ms: broker in p.in_sync_replicas,
        )

    def shows_what_is_not_committed(self) -> None:
        """Consumers may read up to the end of the leader's log."""

        def end(partition: Partition, **kind: bool) -> int:
            return partition.log_end_offset

        self._patch.setattr(Partition, "readable_end", end)

    def forgets_producers_at_failover(self) -> None:
        """Followers do not learn the sequences of what they fetch."""
        append = Log.append_fetched

        def append_fetched(log: Log, *args: Any) -> Any:
            learn = ProducerState.appended
            ProducerState.appended = lambda *args, **more: None  # type: ignore[method-assign]
            try:
                return append(log, *args)
            finally:
                ProducerState.appended = learn  # type: ignore[method-assign]

        self._patch.setattr(Log, "append_fetched", append_fetched)

    def forgets_offsets_at_failover(self) -> None:
        """A coordinator that takes over reads nothing of what was committed."""
        self._patch.setattr(group_shell, "from_bytes", lambda key, value: None)

    def serves_followers_of_any_epoch(self) -> None:
        """A leader does not look where its history and its follower's part."""
        self._patch.setattr(FollowerFetches, "_divergence", lambda fetches, replica, asked: None)


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    return Plant(monkeypatch)


_BUSY: dict[str, Any] = {"fault_interval_s": 0.4, "pace_s": 0.02, "safety_s": 15.0}
_GROUPS = {**_BUSY, "group_members": 2}
_READERS = {**_BUSY, "readers": 2}

BUGS = {
    Plant.commits_without_the_in_sync_set: Hunt(),
    Plant.acknowledges_before_it_is_replicated: Hunt(CHURN, _BUSY),
    Plant.truncates_to_the_high_watermark: Hunt(CHURN, _BUSY, 3),
    Plant.obeys_stale_controllers: Hunt(CHURN, _BUSY),
    Plant.elects_replicas_that_are_out_of_sync: Hunt(CHURN, _BUSY),
    Plant.takes_followers_in_before_they_caught_up: Hunt(CHURN, _BUSY),
    Plant.shows_what_is_not_committed: Hunt(CHURN, _READERS),
    Plant.forgets_producers_at_failover: Hunt(NETWORK, _BUSY, 4),
    Plant.forgets_offsets_at_failover: Hunt(CHURN, _GROUPS),
    Plant.serves_followers_of_any_epoch: Hunt(CHURN, _BUSY),
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(plant: Plant, bug: Callable[[Plant], None]) -> None:
    bug(plant)
    seed, says = BUGS[bug].find()
    print(f"{bug.__name__}: seed {seed}: {says}")
    assert seed < MOST_SEEDS
