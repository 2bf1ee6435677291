"""An application of aiokafka: it answers questions, as long as it is not cancelled."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from kavka.testing import Cluster, Record, Topic


async def answer(settings: dict[str, Any], questions: str, answers: str) -> None:
    """Answer each question."""
    consumer = AIOKafkaConsumer(questions, auto_offset_reset="earliest", **settings)
    async with consumer, AIOKafkaProducer(**settings) as producer:
        async for question in consumer:
            await producer.send_and_wait(answers, question.value.upper(), question.key)


@asynccontextmanager
async def answering(broker: Cluster, questions: Topic, answers: Topic) -> AsyncIterator[None]:
    """Run the application beside the test."""
    settings = broker.client_settings("aiokafka")
    task = asyncio.create_task(answer(settings, questions.name, answers.name))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ask(broker: Cluster, questions: Topic, answers: Topic) -> list[Record]:
    """Ask, lose all connections, and ask again."""
    async with answering(broker, questions, answers):
        # In a thread: a call of the fixture stops the loop while it lasts.
        await asyncio.to_thread(questions.send, "why", "1")
        await asyncio.to_thread(answers.wait_for, 1)
        await asyncio.to_thread(broker.cut_connections)
        await asyncio.to_thread(questions.send, "when", "2")
        return await asyncio.to_thread(answers.wait_for, 2)


def test_questions_are_answered_also_when_connections_break(kavka_broker: Cluster) -> None:
    questions, answers = kavka_broker.topic("questions"), kavka_broker.topic("answers")
    found = asyncio.run(ask(kavka_broker, questions, answers))
    assert [(each.key, each.value) for each in found] == [(b"1", b"WHY"), (b"2", b"WHEN")]
