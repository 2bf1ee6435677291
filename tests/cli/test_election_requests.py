"""Elections that tools ask for: files of partitions, outcomes, and the wish in the registry."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kavka.cli.admin.elections import print_outcomes, read_partitions
from kavka.cli.commands.preferred_replica_election import (
    ELECTION_PATH,
    ask_for_elections,
    known_partitions,
)
from kavka.cli.text.failures import CommandFailed
from kavka.client.admin.elections import ElectionType
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.net.clock import SystemClock, SystemRandom
from kavka.registry.interface import ensure_path
from kavka.registry.local_session import LocalSession
from kavka.registry.znode_server import ZnodeServer

A, B, C = (TopicPartition("t", number) for number in range(3))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "Replica election data is empty"),
        ("[]", 'Replica election data is missing "partitions" field'),
        ('{"partitions": [{"topic": "t"}]}', "is not of the form"),
        ('{"partitions": [{"topic": "t", "partition": "0"}]}', "is not of the form"),
        ('{"partitions": [{"topic": "t", "partition": 2147483648}]}', "is not of the form"),
        ("[" * 100_000, "Replica election data is empty"),
        (
            '{"partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 0}]}',
            "Replica election data contains duplicate partitions: [t-0]",
        ),
    ],
)
def test_a_file_that_names_no_partitions_is_refused(
    tmp_path: Path, text: str, sentence: str
) -> None:
    path = tmp_path / "partitions.json"
    path.write_text(text)
    with pytest.raises(CommandFailed) as refused:
        read_partitions(str(path))
    assert sentence in str(refused.value)


def test_the_plan_of_a_move_names_partitions_too(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(
        '{"partitions": [{"topic": "t", "partition": 2, "replicas": [1]}], "version": 1}'
    )
    assert read_partitions(str(path)) == [C]


def test_outcomes_of_elections_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    missing = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    needless = KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    with pytest.raises(CommandFailed, match=r"1 replica\(s\) could not be elected"):
        print_outcomes(ElectionType.UNCLEAN, {C: missing, B: needless, A: None})
    assert capsys.readouterr().out == (
        "Successfully completed leader election (UNCLEAN) for partitions t-0\n"
        "Valid replica already elected for partitions t-1\n"
        "Error completing leader election (UNCLEAN) for partition: t-2: "
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: The partition does not exist.\n"
    )


def test_the_wish_is_written_where_the_controller_looks() -> None:
    async def work() -> None:
        registry = LocalSession(ZnodeServer(SystemClock(), SystemRandom()), 10_000)
        await ensure_path(registry, "/brokers/topics")
        await ensure_path(registry, "/admin")
        await registry.create("/brokers/topics/t", b'{"version":1,"partitions":{"1":[0],"0":[0]}}')
        assert sorted(await known_partitions(registry)) == [A, B]
        await ask_for_elections(registry, [B, A])
        data, _ = await registry.get(ELECTION_PATH)
        parts = [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]
        assert json.loads(data) == {"version": 1, "partitions": parts}
        with pytest.raises(CommandFailed, match="currently in progress"):
            await ask_for_elections(registry, [A])

    asyncio.run(work())
