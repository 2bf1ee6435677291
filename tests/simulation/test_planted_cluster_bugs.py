"""Bugs of replication and control that are planted on purpose: each must be found, or the simulation proves nothing.

They are searched for with the seeds as `kavka simulate --cluster` plays them, bugs of throttles with seeds whose
administrators throttle replication.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kavka import values
from kavka.broker.api import offset_fetch
from kavka.broker.control import controller
from kavka.broker.control.control_requests import ControlRequests
from kavka.broker.control.controller_term import ControllerTerm
from kavka.broker.control.registry_writer import RegistryWriter, multi_merging_configs
from kavka.broker.coordination import group_shard_runtime, transaction_shard_runtime
from kavka.broker.coordination.marker_appends import MarkerAppender
from kavka.broker.replication import follower_reader
from kavka.broker.replication.throttle import LeaderThrottle, Throttle
from kavka.core.controller import election
from kavka.core.controller.step import Step as ControllerStep
from kavka.core.follower import FetchRecords, FollowedPartition, Step, Truncate
from kavka.core.group import transactions
from kavka.core.partition import Follower, IsrChange, Partition
from kavka.core.producer_state import ProducerState
from kavka.core.transaction import init, shard
from kavka.core.transaction.end import end
from kavka.core.transaction.events import InitProducerReply
from kavka.core.transaction.init import init_producer
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicPartition
from kavka.simulation.brokers.run import ClusterRun
from kavka.simulation.brokers.scenario import PAYMENTS, ClusterScenario
from kavka.storage.log.log import Log

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(600)]


MOST_SEEDS = 1000


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

        ask = FollowedPartition.next_request

        def question(followed: FollowedPartition, now_ms: int) -> Any:
            asked = ask(followed, now_ms)
            return (
                asked._replace(last_fetched_epoch=-1) if isinstance(asked, FetchRecords) else asked
            )

        self._patch.setattr(FollowedPartition, "first_step", first_step)
        self._patch.setattr(FollowedPartition, "next_request", question)

    def obeys_stale_controllers(self) -> None:
        """A deposed controller continues, the registry takes what it writes, and brokers obey it."""

        async def multi(writer: RegistryWriter, operations: Any) -> None:
            await multi_merging_configs(writer._registry, operations)

        see = controller.Controller._elect

        async def sees(ruler: controller.Controller, bounced: Any) -> None:
            if not ruler.is_active:
                await see(ruler, bounced)

        async def stays(term: ControllerTerm) -> None:
            return None

        def renewed(ruler: controller.Controller) -> None:
            if not ruler.is_active:
                ruler._elected = None
                ruler._watch_loop.notify()

        self._patch.setattr(ControllerTerm, "_is_still_controller", stays)
        self._patch.setattr(controller.Controller, "session_renewed", renewed)
        self._patch.setattr(RegistryWriter, "_multi", multi)
        self._patch.setattr(controller.Controller, "_elect", sees)
        self._patch.setattr(
            ControlRequests, "_refusal", lambda orders, controller_id, epoch, broker: ErrorCode.NONE
        )

    def elects_replicas_that_are_out_of_sync(self) -> None:
        """Unclean elections, although the topics forbid them."""
        settings = controller.controller_settings

        def lenient(broker: Any) -> Any:
            return values.replace(settings(broker), allows_unclean=lambda topic: True)

        self._patch.setattr(controller, "controller_settings", lenient)

    def takes_followers_in_before_they_caught_up(self) -> None:
        """Each follower that fetches is proposed for the in-sync set."""

        def propose(
            partition: Partition, replica: BrokerId, follower: Follower
        ) -> IsrChange | None:
            if partition.pending_isr is not None or replica in partition.in_sync_replicas:
                return None
            return partition._propose((*partition.in_sync_replicas, replica))

        self._patch.setattr(Partition, "_propose_expansion", propose)
        self._patch.setattr(
            Partition,
            "_blocks_high_watermark",
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
        self._patch.setattr(group_shard_runtime, "from_bytes", lambda key, value: None)

    def serves_followers_of_any_epoch(self) -> None:
        """A leader does not look where its history and its follower's part."""
        self._patch.setattr(follower_reader, "find_divergence", lambda replica, asked: None)

    def shows_open_transactions(self) -> None:
        """Readers of committed records may read up to the high watermark."""
        whole = property(lambda partition: partition.high_watermark)
        self._patch.setattr(Partition, "last_stable_offset", whole)

    def hides_which_transactions_were_aborted(self) -> None:
        """Fetch names no aborted transactions."""
        self._patch.setattr(Log, "aborted_transactions", lambda log, *range_of_offsets: [])

    def forgets_transactions_at_failover(self) -> None:
        """A coordinator that takes over reads nothing of the transactions that there are."""
        self._patch.setattr(transaction_shard_runtime, "from_bytes", lambda key, value: None)

    def tears_transactions(self) -> None:
        """One partition's leader takes every marker for an abort."""
        append = MarkerAppender._append

        def torn(appender: Any, topic_partition: TopicPartition, marker: Any, *more: Any) -> Any:
            if topic_partition == TopicPartition(PAYMENTS, 0):
                marker = marker._replace(committed=False)
            return append(appender, topic_partition, marker, *more)

        self._patch.setattr(MarkerAppender, "_append", torn)

    def obeys_fenced_producers(self) -> None:
        """The coordinator ends transactions for any producer, with any epoch."""

        def lenient(transaction: Any, event: Any, step: Any, new_id: int | None = None) -> None:
            if transaction is not None and transaction.value is not None:
                producer_id, epoch = transaction.value.client
                event = values.replace(event, producer_id=producer_id, producer_epoch=epoch)
            end(transaction, event, step, new_id)

        self._patch.setattr(shard, "end", lenient)

    def commits_offsets_before_their_transaction(self) -> None:
        """Offsets that were sent to a transaction count at once."""
        appended = transactions.appended

        def counted(group: Any, record: Any) -> None:
            appended(group, record)
            if record.value is not None:
                group.offsets[record.topic, record.partition] = record.value

        self._patch.setattr(transactions, "appended", counted)

    def does_not_await_the_former_lifes_commit(self) -> None:
        """A producer that takes an id over does not wait for a commit in progress, nor for its offsets (KIP-447)."""
        fetch = offset_fetch._fetch

        def hasty(transaction: Any, event: Any, step: Any, new_id: int | None = None) -> None:
            value = transaction.value
            is_decided = value is not None and value.state.is_prepared
            if is_decided and transaction.pending is None and transaction.waiting is None:
                reply = InitProducerReply(ErrorCode.NONE, *value.successor)
                step.reply(event.token, reply)
            else:
                init_producer(transaction, event, step, new_id)

        async def unstable(
            broker: Any, group: str, wanted: Any, require_stable: bool, *more: Any
        ) -> Any:
            return await fetch(broker, group, wanted, False, *more)

        self._patch.setattr(shard, "init_producer", hasty)
        self._patch.setattr(offset_fetch, "_fetch", unstable)

    def times_out_what_is_prepared(self) -> None:
        """Transactions of two phases are aborted because of their age, as others are."""
        self._patch.setattr(init, "_timeout_ms", lambda event: 3000)

    def aborts_what_is_prepared_when_the_id_is_taken_over(self) -> None:
        """A producer that takes an id over to keep its open transaction has it aborted nevertheless."""

        def hasty(transaction: Any, event: Any, step: Any, new_id: int | None = None) -> None:
            init_producer(transaction, values.replace(event, keep_prepared=False), step, new_id)

        self._patch.setattr(shard, "init_producer", hasty)

    def never_truncates_what_was_committed(self) -> None:
        """Followers keep all below their high watermark, though an unclean leader has it no more."""

        def cut(followed: FollowedPartition, offset: int) -> Truncate:
            log = followed.log
            return Truncate(min(max(offset, log.high_watermark), log.log_end_offset))

        response = FollowedPartition.offset_fetched

        def answer_offset(followed: FollowedPartition, *args: Any) -> Step | None:
            step = response(followed, *args)
            return cut(followed, step.offset) if isinstance(step, Truncate) else step

        self._patch.setattr(FollowedPartition, "_truncate", cut)
        self._patch.setattr(FollowedPartition, "offset_fetched", answer_offset)

    def elects_uncleanly_beside_replicas_in_sync(self) -> None:
        """A replica that is not in sync is elected first where unclean elections are allowed."""
        elect = election.elect_offline

        def offline(node: Any, replicas: Any, is_online: Any, *, allow_unclean: bool) -> Any:
            behind = [b for b in replicas if is_online(b) and b not in node.in_sync_replicas]
            if allow_unclean and behind:
                return election.led_by(node, behind[0], behind[:1])._replace(recovering=True)
            return elect(node, replicas, is_online, allow_unclean=allow_unclean)

        self._patch.setattr(election, "elect_offline", offline)
        self._patch.setattr(ControllerStep, "may_return", lambda step, broker, where: False)

    def shows_what_followers_do_not_know_to_be_committed(self) -> None:
        """A follower serves consumers up to the end of its log."""
        readable = Partition.readable_end

        def end(partition: Partition, **kind: bool) -> int:
            return (
                partition.log_end_offset if not partition.is_leader else readable(partition, **kind)
            )

        self._patch.setattr(Partition, "readable_end", end)

    def throttles_replicas_in_sync(self) -> None:
        """A throttle counts and holds back replicas that the high watermark waits for."""

        def note(throttle: LeaderThrottle, replica: Any, follower: Any, size: int) -> None:
            own = throttle._context.broker_id
            if size and throttle._replicas.includes(replica.topic_partition, own):
                throttle.record(size)

        self._patch.setattr(Partition, "waits_for", lambda partition, follower, now_ms: False)
        self._patch.setattr(LeaderThrottle, "record_served", note)

    def never_lifts_throttles(self) -> None:
        """A throttle that was exceeded once keeps the rate of then."""
        exceeded = Throttle.is_exceeded.fget  # type: ignore[attr-defined]
        assert exceeded is not None
        stuck: set[int] = set()

        def is_exceeded(throttle: Throttle) -> bool:
            if exceeded(throttle):
                stuck.add(id(throttle))
            return id(throttle) in stuck

        self._patch.setattr(Throttle, "is_exceeded", property(is_exceeded))


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    return Plant(monkeypatch)


BUGS: dict[Callable[[Plant], None], int] = {
    Plant.commits_without_the_in_sync_set: 0,
    Plant.acknowledges_before_it_is_replicated: 5,
    Plant.truncates_to_the_high_watermark: 5,
    Plant.obeys_stale_controllers: 9,
    Plant.elects_replicas_that_are_out_of_sync: 3,
    Plant.takes_followers_in_before_they_caught_up: 1,
    Plant.shows_what_is_not_committed: 0,
    Plant.forgets_producers_at_failover: 2,
    Plant.forgets_offsets_at_failover: 3,
    Plant.serves_followers_of_any_epoch: 5,
    Plant.shows_open_transactions: 0,
    Plant.hides_which_transactions_were_aborted: 0,
    Plant.forgets_transactions_at_failover: 3,
    Plant.tears_transactions: 0,
    Plant.obeys_fenced_producers: 0,
    Plant.commits_offsets_before_their_transaction: 0,
    Plant.does_not_await_the_former_lifes_commit: 59,
    Plant.times_out_what_is_prepared: 4,
    Plant.aborts_what_is_prepared_when_the_id_is_taken_over: 4,
    Plant.never_truncates_what_was_committed: 21,
    Plant.elects_uncleanly_beside_replicas_in_sync: 66,
    Plant.shows_what_followers_do_not_know_to_be_committed: 5,
    Plant.throttles_replicas_in_sync: 22,
    Plant.never_lifts_throttles: 19,
}
"""Each with the seed that found it when the search began at 0: there it begins now, for the sake of time."""
THROTTLED = {Plant.throttles_replicas_in_sync, Plant.never_lifts_throttles}
BROKEN_PLANTS = (AttributeError, NameError, TypeError)
"""Failures of a planted bug that does not fit the product any more."""


def scenario_of(seed: int, bug: Callable[[Plant], None]) -> ClusterScenario:
    """Return the scenario of a seed; where throttles are at fault, of many administrators that set and lift them."""
    chosen = ClusterScenario.of_cluster(seed)
    if bug not in THROTTLED:
        return chosen
    return replace(
        chosen,
        throttles=True,
        admins=4,
        topic=chosen.topic | {"min.insync.replicas": str(min(2, chosen.replication))},
        broker=chosen.broker | {"replica.lag.time.max.ms": "10000"},
    )


LONG = {Plant.never_lifts_throttles}
"""Found after more than a minute; the other bug of throttles is in the ordinary run."""


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=[pytest.mark.long] if bug in LONG else []) for bug in BUGS],
    ids=lambda bug: bug.__name__,
)
def test_a_planted_bug_is_found(plant: Plant, bug: Callable[[Plant], None]) -> None:
    bug(plant)
    for seed in range(BUGS[bug], MOST_SEEDS):
        report = ClusterRun(seed, scenario_of(seed, bug)).run()
        if not report.passed:
            break
    print(f"{bug.__name__}: seed {seed}: {[*report.broken, *report.failures][:1]}")
    assert not report.passed
    compared = ["ReplicasEndAlike" in str(finding) for finding in report.broken]
    assert len(set(compared)) <= 1, "a run that was stopped has no end to be compared"
    assert [str(one) for one in report.failures if isinstance(one.exception, BROKEN_PLANTS)] == []
