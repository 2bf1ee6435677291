"""A new registry that adopts logs contradicts nothing that they remember."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.broker.control.adoption import (
    adopted_producer_ids,
    adoption,
    first_producer_id,
)
from kavka.broker.metadata.cache import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kavka.ids import BrokerId
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.metadata import MetadataRequest
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.stored.transactions import (
    TransactionLogKey,
    TransactionLogValue,
)
from kavka.wire.stored.znodes import ProducerIdBlock
from support.config_requests import SET, TOPIC, altered, described
from support.one_broker import Run, Served
from support.produce import batch
from support.transaction_records import encode_transaction_key, encode_transaction_value


def lose_registry(data: Path) -> None:
    for path in data.glob("kavka-registry.*"):
        path.unlink()


async def producer_id(served: Served) -> int:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    response = await served.send(request)
    assert response.error_code == 0
    return int(response.producer_id)


async def produce_idempotently(served: Served, of: int, *values: bytes) -> None:
    for sequence, value in enumerate(values):
        ids = {"producer_id": of, "producer_epoch": 0, "base_sequence": sequence}
        assert (await served.produce_bytes("t", batch(value, **ids))).error_code == 0  # type: ignore[arg-type]


def test_a_new_registry_gives_no_producer_the_id_of_another(run: Run, tmp_path: Path) -> None:
    given: list[int] = []

    async def before(served: Served) -> None:
        await served.create("t")
        given.append(await producer_id(served))
        await produce_idempotently(served, given[0], b"1", b"2", b"3")
        given.append(await producer_id(served))  # of a producer that has written nothing yet

    async def after(served: Served) -> None:
        new = await producer_id(served)
        assert new > max(given)
        await produce_idempotently(served, new, b"4", b"5", b"6")
        values = [record.value for record in await served.read("t")]
        assert values == [b"1", b"2", b"3", b"4", b"5", b"6"]

    run(before)
    lose_registry(tmp_path / "data")
    run(after)


def test_leader_epochs_of_adopted_logs_go_on(run: Run, tmp_path: Path) -> None:
    epochs: list[int] = []

    async def story(served: Served) -> None:
        if not epochs:
            await served.create("t")
        topic = next(
            t for t in (await served.send(MetadataRequest(topics=None))).topics if t.name == "t"
        )
        epochs.append(topic.partitions[0].leader_epoch)
        assert (await served.produce("t", b"v")).error_code == 0

    for _ in range(3):
        run(story)
        lose_registry(tmp_path / "data")
    assert epochs == [0, 1, 2]


def test_an_empty_directory_begins_with_producer_id_0(run: Run) -> None:
    async def story(served: Served) -> None:
        assert await producer_id(served) == 0

    run(story)


def test_ids_that_only_the_transaction_log_names_are_left_out(run: Run, tmp_path: Path) -> None:
    """Also when the clock is wrong, and of transactional ids whose batches are gone from the topics."""

    async def before(served: Served) -> None:
        broker = served.broker
        await served.create("t")
        await served.create("copy")
        value = TransactionLogValue(
            producer_id=7_000,
            producer_epoch=1,
            transaction_timeout_ms=1000,
            transaction_status=0,
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=0,
            transaction_start_timestamp_ms=-1,
            next_producer_id=8_000,
            client_transaction_version=2,
        )
        builder = BatchBuilder()
        key = encode_transaction_key(TransactionLogKey(transactional_id="x"))
        builder.append(key, encode_transaction_value(value), 0)
        builder.append(b"no key", b"no value", 0)
        assert (await served.produce_bytes("copy", builder.build())).error_code == 0
        store, disk = broker.replica_manager.store, broker.environment.disk
        partition_log = next(each for each in store if each.topic_partition.topic == "copy")
        partition_log.topic_partition = partition_log.topic_partition._replace(
            topic=TRANSACTIONS_TOPIC
        )
        (operation,) = await adopted_producer_ids(store, disk, BrokerId(0), 5)
        assert ProducerIdBlock.decode(operation.data).end == 8_000  # type: ignore[arg-type]

    run(before)


MAX_ID = (1 << 63) - 1


@pytest.mark.parametrize("written", [MAX_ID, MAX_ID - 999, 1 << 62], ids=str)
def test_a_producer_id_that_no_registry_gave_out_takes_no_id_from_others(
    run: Run, tmp_path: Path, written: int
) -> None:
    """Any client may write it. All later producers were refused with a closed connection, and so permanently."""
    given: list[int] = []

    async def before(served: Served) -> None:
        await served.create("t")
        given.append(await producer_id(served))
        await produce_idempotently(served, written, b"1")

    async def after(served: Served) -> None:
        new = await producer_id(served)
        assert max(given) < new < 1 << 50
        given.append(new)
        await produce_idempotently(served, new, b"2", b"3")
        key = f"x-{len(given)}"
        found = await served.send(FindCoordinatorRequest(key=key, key_type=1), 3)
        assert found.error_code == 0
        request = InitProducerIdRequest(transactional_id=key, transaction_timeout_ms=60_000)
        response = await served.send(request)
        assert (response.error_code, response.producer_id) == (0, new + 1)

    run(before)
    for _ in range(2):
        lose_registry(tmp_path / "data")
        run(after)


FREE = 1 << 40


@pytest.mark.parametrize(
    ("known", "first"),
    [
        ([], 5),
        ([4], 5),
        ([5, 7, 6], 8),
        ([MAX_ID], 5),
        ([5 + FREE], 5),
        ([5 + FREE - 1], 5 + FREE),
        ([8, 8 + FREE, 8 + 3 * FREE], 9 + FREE),
        ([MAX_ID - 1, *range(0, MAX_ID, 1 << 50)], 5),
    ],
)
def test_producer_ids_begin_where_many_follow_that_are_not_in_use(
    known: list[int], first: int
) -> None:
    assert first_producer_id(known, 5) == first


def test_producer_ids_end_where_ids_in_use_lie_everywhere() -> None:
    everywhere = range(MAX_ID - FREE * 20, MAX_ID, FREE // 2)
    assert first_producer_id([*everywhere, MAX_ID], MAX_ID - FREE * 20) == MAX_ID


def test_the_time_is_no_bound_where_the_clock_is_wrong(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t")
        await produce_idempotently(served, 41, b"1")
        broker = served.broker
        operations = await adoption(
            broker.context, broker.replica_manager.store, lambda name: None, 3
        )
        assert ProducerIdBlock.decode(operations[-1].data or b"").end == 41

    run(story)


OLD_MS = 1_700_000_000_000
"""Years ago: `Served.produce` writes this time."""
EXPLICIT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@pytest.mark.parametrize(
    "settings",
    [
        {"cleanup.policy": "compact"},
        {"cleanup.policy": "compact,delete", "retention.ms": "-1"},
        {"retention.ms": "-1"},
        {"retention.ms": str(100 * 365 * 24 * 3600 * 1000)},
    ],
    ids=str,
)
@pytest.mark.parametrize("broker_policy", ["delete", "compact"])
def test_retention_and_cleaner_leave_adopted_logs_whole(
    run: Run, tmp_path: Path, settings: dict[str, str], broker_policy: str
) -> None:
    """Neither the topic's former settings nor the broker's defaults matter."""
    values = [b"1", b"2", b"3"]
    dynamic = {"log.cleanup.policy": broker_policy, "log.retention.bytes": "1"}
    of_broker = {name.replace(".", "__"): text for name, text in dynamic.items()}

    async def before(served: Served) -> None:
        named = {name.replace(".", "__"): text for name, text in settings.items()}
        assert (await served.create("t", **named)).error_code == 0
        for value in values:
            records = batch(value, key=b"k", timestamp_ms=OLD_MS)
            assert (await served.produce_bytes("t", records)).error_code == 0
            next(iter(served.broker.replica_manager)).log.roll()

    async def after(served: Served) -> None:
        await served.broker.replica_manager.delete_old_segments()
        cleanable = [r.log.config.is_compacted for r in served.broker.replica_manager]
        assert cleanable == [False]
        read = [(await served.read("t", offset))[0].value for offset in range(3)]
        assert read == values  # each in a segment of its own

    run(before, log__cleaner__enable="false")
    lose_registry(tmp_path / "data")
    for _ in range(2):  # also after the start that knows the topic
        run(after, **of_broker)


def test_settings_of_an_adopted_topic_are_shown_and_obeyed_once_they_are_set(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def before(served: Served) -> None:
        await served.create("t")
        assert (await served.produce("t", b"old")).error_code == 0

    async def after(served: Served) -> None:
        shown = (await described(served, TOPIC, "t", list(EXPLICIT))).configs
        assert {each.name: each.value for each in shown} == EXPLICIT
        assert served.broker.context.effective_configs.topic_overrides("t") == EXPLICIT
        await altered(served, (TOPIC, "t", [("retention.ms", SET, "5000")]))
        await served.broker.replica_manager.delete_old_segments()
        assert await served.read("t", 1) == []
        assert next(iter(served.broker.replica_manager)).log.log_start_offset == 1

    run(before)
    lose_registry(tmp_path / "data")
    run(after)
    (warning,) = [r.getMessage() for r in caplog.records if "retention is off" in r.getMessage()]
    assert "topic=t was_compacted=no" in warning
    assert "kavka configs --bootstrap-server HOST:PORT --alter --topic t" in warning


def test_internal_topics_are_adopted_with_the_settings_that_they_are_created_with(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given: list[dict[str, dict[str, str]]] = []

    async def story(served: Served) -> None:
        for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            await served.broker.topics.create_automatically(name)
        names = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
        given.append(
            {name: served.broker.context.effective_configs.topic_overrides(name) for name in names}
        )

    run(story, transaction__state__log__num__partitions="2")
    lose_registry(tmp_path / "data")
    run(story, transaction__state__log__num__partitions="2")
    assert given[0] == given[1]
    assert given[1][OFFSETS_TOPIC]["segment.bytes"] == "104857600"
    assert not [r for r in caplog.records if "retention is off" in r.getMessage()]


def test_a_log_that_was_compacted_is_recognised_by_the_cleaners_checkpoint(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def before(served: Served) -> None:
        await served.create("t")
        assert (await served.produce("t", b"v")).error_code == 0

    async def after(served: Served) -> None:
        assert served.broker.context.effective_configs.topic_overrides("t") == EXPLICIT

    run(before)
    lose_registry(tmp_path / "data")
    (tmp_path / "data" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 0\n")
    run(after)
    (warning,) = [r.getMessage() for r in caplog.records if "retention is off" in r.getMessage()]
    assert "was_compacted=yes" in warning
    assert "--add-config cleanup.policy=compact" in warning
