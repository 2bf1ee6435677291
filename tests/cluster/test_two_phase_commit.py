"""Two-phase commit (KIP-939) with our client over three brokers: prepared here, decided elsewhere, however late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kavka.client import (
    Admin,
    FatalError,
    GroupMetadata,
    PreparedTxnState,
    Producer,
    TopicPartition,
)
from kavka.errors import ErrorCode, KafkaError
from support.waiting import eventually

Run = Callable[..., None]
Cluster = Any
ON_TWO, ON_THREE = TopicPartition("on-two", 0), TopicPartition("on-three", 0)
SETTINGS = {
    "transaction__state__log__num__partitions": "1",
    "offsets__topic__num__partitions": "1",
    "kavka__transaction__version": "2",
    "transaction__two__phase__commit__enable": "true",
    "transaction__abort__timed__out__transaction__cleanup__interval__ms": "20",
}
ID = "x"
TWO_PHASE = {"transaction.two.phase.commit.enable": True}
NO_TIMEOUT_MS = 2**31 - 1
PATIENCE_S = 60


def at(cluster: Cluster, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": f"127.0.0.1:{cluster.ports[1]}"} | more


def producer(cluster: Cluster, **more: Any) -> Producer:
    return Producer(at(cluster) | {"transactional.id": ID} | TWO_PHASE | more)


async def topics(cluster: Cluster) -> None:
    await cluster.create("on-two", [2, 3, 1])
    await cluster.create("on-three", [3, 2, 1])


async def prepared(cluster: Cluster, **more: Any) -> PreparedTxnState:
    """Write to two partitions, prepare, and go away."""
    async with producer(cluster, **more) as one:
        await one.init_transactions()
        one.begin_transaction()
        one.append("on-two", b"a")
        one.append("on-three", b"b")
        state = await one.prepare_transaction()
    assert state is not None
    return state


async def described(admin: Admin) -> Any:
    """Return the transaction when no marker is on its way."""

    async def transaction() -> Any:
        return (await admin.describe_transactions([ID]))[ID]

    return await eventually(
        transaction,
        lambda found: isinstance(found, Exception) or not found.state.startswith("Prepare"),
        PATIENCE_S,
    )


@pytest.mark.slow
@pytest.mark.parametrize("outcome", [True, False])
def test_another_process_ends_what_was_prepared_and_may_say_so_again(
    outcome: bool, run: Run
) -> None:
    async def story(cluster: Cluster) -> None:
        await topics(cluster)
        state = PreparedTxnState.parse(str(await prepared(cluster)))
        async with Admin(at(cluster)) as admin:
            shown = await described(admin)
            assert (shown.state, shown.producer_id, shown.producer_epoch) == ("Ongoing", *state)
            assert shown.timeout_ms == NO_TIMEOUT_MS
            await admin.end_transaction(ID, state, committed=outcome)
            await admin.end_transaction(ID, state, committed=outcome)
            shown = await described(admin)
            assert shown.state == ("CompleteCommit" if outcome else "CompleteAbort")
            await admin.end_transaction(ID, state, committed=outcome)
            with pytest.raises(KafkaError) as refused:
                await admin.end_transaction(ID, state, committed=not outcome)
            other_way = ErrorCode.INVALID_TXN_STATE if outcome else ErrorCode.PRODUCER_FENCED
            assert refused.value.code is other_way
        assert await cluster.committed("on-two") == ([b"a"] if outcome else [])
        assert await cluster.committed("on-three") == ([b"b"] if outcome else [])

    run(story, **SETTINGS)


def test_a_decision_is_carried_out_although_the_coordinator_dies(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await topics(cluster)
        state = await prepared(cluster)
        coordinator = cluster.leader(TopicPartition("__transaction_state", 0))
        await cluster.kill(coordinator)
        (living, *_) = cluster.brokers
        settings = {"bootstrap.servers": f"127.0.0.1:{cluster.ports[living]}"}
        async with Admin(settings) as admin:
            await admin.end_transaction(ID, state, committed=True)
            assert (await described(admin)).state == "CompleteCommit"

    run(story, **SETTINGS)


@pytest.mark.parametrize("is_the_same", [True, False])
def test_the_next_life_completes_what_was_kept_by_its_name(is_the_same: bool, run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await topics(cluster)
        state = await prepared(cluster)
        async with producer(cluster) as next_life:
            kept = await next_life.init_transactions(keep_prepared=True)
            assert kept == state
            with pytest.raises(RuntimeError, match="prepared transaction"):
                next_life.begin_transaction()
            with pytest.raises(RuntimeError, match="prepared transaction"):
                await next_life.send("on-two", b"no")
            named = state if is_the_same else PreparedTxnState(state.producer_id, state.epoch + 1)
            await next_life.complete_transaction(named)
            async with next_life.transaction():
                next_life.append("on-two", b"c")
        expected = [b"a", b"c"] if is_the_same else [b"c"]
        assert await cluster.committed("on-two") == expected

    run(story, **SETTINGS)


def test_a_life_that_keeps_fences_the_one_before_and_a_third_keeps_again(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await topics(cluster)
        async with producer(cluster) as first:
            await first.init_transactions()
            first.begin_transaction()
            await first.send("on-two", b"a")
            state = await first.prepare_transaction()
            async with producer(cluster) as second:
                assert await second.init_transactions(keep_prepared=True) == state
            with pytest.raises(FatalError) as fenced:
                await first.commit_transaction()
            assert fenced.value.code is ErrorCode.PRODUCER_FENCED
        async with producer(cluster) as third:
            assert await third.init_transactions(keep_prepared=True) == state
            await third.commit_transaction()
        assert await cluster.committed("on-two") == [b"a"]

    run(story, **SETTINGS)


def test_a_life_that_does_not_keep_aborts(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await topics(cluster)
        state = await prepared(cluster)
        async with producer(cluster) as next_life:
            assert await next_life.init_transactions() is None
        async with Admin(at(cluster)) as admin:
            with pytest.raises(KafkaError) as refused:
                await admin.end_transaction(ID, state, committed=True)
            assert refused.value.code is ErrorCode.PRODUCER_FENCED
        assert await cluster.committed("on-two") == []

    run(story, **SETTINGS)


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", [False, True])
def test_an_operator_finds_and_ends_transactions_without_decision(is_kept: bool, run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await topics(cluster)
        state = await prepared(cluster)
        if is_kept:
            async with producer(cluster) as next_life:
                assert await next_life.init_transactions(keep_prepared=True) == state
        async with Admin(at(cluster)) as admin:
            open_ones = (await admin.list_transactions(states=["Ongoing"])).values()
            assert [one.transactional_id for some in open_ones for one in some] == [ID]
            assert await admin.fence_producers([ID]) == {ID: None}
            assert (await described(admin)).partitions == []
            with pytest.raises(KafkaError) as refused:
                await admin.end_transaction(ID, state, committed=True)
            assert refused.value.code is ErrorCode.PRODUCER_FENCED
        assert await cluster.committed("on-two") == await cluster.committed("on-three") == []

    run(story, **SETTINGS)


def test_nothing_to_keep_is_said_and_the_producer_goes_on(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await topics(cluster)
        async with producer(cluster) as one:
            assert await one.init_transactions(keep_prepared=True) is None
            with pytest.raises(RuntimeError, match="complete_transaction is not possible"):
                await one.complete_transaction(PreparedTxnState(1, 1))
            one.begin_transaction()
            assert await one.prepare_transaction() is None  # nothing was sent
            await one.complete_transaction(None)
            async with one.transaction():
                one.append("on-two", b"a")
        assert await cluster.committed("on-two") == [b"a"]

    run(story, **SETTINGS)


def test_offsets_are_committed_with_what_is_prepared(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await topics(cluster)
        async with producer(cluster) as one, Admin(at(cluster)) as admin:
            await one.init_transactions()
            one.begin_transaction()
            await one.send_offsets_to_transaction({ON_TWO: 7}, GroupMetadata("g"))
            state = await one.prepare_transaction()
            assert state is not None
            assert await admin.list_group_offsets("g") == {}
            await admin.end_transaction(ID, state, committed=True)
            await described(admin)
            (found,) = (await admin.list_group_offsets("g")).values()
            assert found.offset == 7

    run(story, **SETTINGS)


@pytest.mark.slow
def test_two_phase_transactions_outlive_time_outs_and_others_do_not(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await topics(cluster)
        two_phase = await prepared(cluster)
        ordinary: dict[str, Any] = dict.fromkeys(TWO_PHASE, False)
        other = await prepared(
            cluster, **ordinary, **{"transactional.id": "timed", "transaction.timeout.ms": 3000}
        )
        async with Admin(at(cluster)) as admin:
            await eventually(
                lambda: state_of(admin, "timed"), lambda state: state == "CompleteAbort", PATIENCE_S
            )
            with pytest.raises(KafkaError) as refused:
                await admin.end_transaction("timed", other, committed=True)
            assert refused.value.code is ErrorCode.PRODUCER_FENCED
            assert await state_of(admin, ID) == "Ongoing"
            await admin.end_transaction(ID, two_phase, committed=True)
            assert (await described(admin)).state == "CompleteCommit"
        assert await cluster.committed("on-two") == [b"a"]

    run(story, **SETTINGS)


async def state_of(admin: Admin, transactional_id: str) -> str:
    found: Any = (await admin.describe_transactions([transactional_id]))[transactional_id]
    state: str = found.state
    return state


def test_brokers_that_do_not_allow_it_refuse(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        async with producer(cluster) as one:
            with pytest.raises(FatalError) as refused:
                await one.init_transactions()
            assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    run(story, **SETTINGS | {"transaction__two__phase__commit__enable": "false"})


def test_keeping_needs_transaction_version_2(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        async with producer(cluster) as one:
            with pytest.raises(FatalError) as refused:
                await one.init_transactions(keep_prepared=True)
            assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
        await topics(cluster)
        state = await prepared(cluster)  # which needs no keeping
        async with Admin(at(cluster)) as admin:
            for _ in range(2):
                await admin.end_transaction(ID, state, committed=True)
            assert (await described(admin)).producer_epoch == state.epoch
        assert await cluster.committed("on-two") == [b"a"]

    run(story, **SETTINGS | {"kavka__transaction__version": "0"})
