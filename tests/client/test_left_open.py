"""Asynchronous clients that a process was forked with, and those that nothing closes."""

import asyncio
import gc
import os
import subprocess
import sys
import textwrap

import pytest

from kavka.client import Admin, Consumer, Producer, TopicPartition

AT = TopicPartition("t", 0)


def refusal(call):
    """Return why a call, or a coroutine, is refused before it waits for anything."""
    try:
        made = call()
        if asyncio.iscoroutine(made):
            made.send(None)
    except RuntimeError as error:
        return str(error)
    except StopIteration:
        return "it has worked"
    return "it has begun"


def in_a_child(*calls):
    """Return what a forked child is answered."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, "\n".join(map(refusal, calls)).encode())
        os._exit(0)
    os.close(write_end)
    assert os.waitpid(child, 0)[1] == 0
    with os.fdopen(read_end) as responses:
        return responses.read().split("\n")


@pytest.mark.timeout(60)
def test_a_forked_child_is_referred_to_a_client_of_its_own(broker, settings):
    async def main() -> None:
        async with (
            Producer(settings, network=broker) as producer,
            Consumer(settings | {"group.id": "g"}, network=broker) as consumer,
            Admin(settings, network=broker) as admin,
        ):
            await producer.send("t", b"1")
            consumer.assign([AT])
            responses = in_a_child(
                lambda: producer.append("t", b"2"),
                lambda: producer.send("t", b"2"),
                lambda: producer.send_many("t", [(None, b"2")]),
                lambda: producer.flush(),
                lambda: consumer.poll(1000),
                lambda: consumer.__anext__(),
                lambda: consumer.commit({AT: 1}),
                lambda: consumer.committed([AT]),
                lambda: consumer.position(AT),
                lambda: admin.describe_topics(["t"]),
                lambda: admin.list_groups(),
            )
            for response in responses:
                assert "was made before this process was forked" in response
                assert "Make the client in the child" in response
            assert in_a_child(producer.close, consumer.close, admin.close) == ["it has worked"] * 3
            await producer.send("t", b"3")

    asyncio.run(main())
    assert [value for _, _, value in broker.records("t")] == [b"1", b"3"]


def test_a_client_that_was_closed_says_that_it_is_not_open(broker, settings):
    async def main() -> None:
        admin = Admin(settings, network=broker)
        with pytest.raises(RuntimeError, match="the admin is not open"):
            await admin.list_groups()
        async with admin:
            pass
        with pytest.raises(RuntimeError, match="the admin is not open"):
            await admin.list_groups()
        await admin.close()

    asyncio.run(main())


def test_a_client_that_is_collected_unclosed_warns_with_what_it_has_lost(broker, settings, caplog):
    async def main() -> None:
        producer = Producer(settings | {"linger.ms": 60_000}, network=broker)
        await producer.start()
        await producer.partitions_for("t")
        producer.append("t", b"2")
        producer.append("t", b"3")
        await Consumer(settings, network=broker).start()
        member = Consumer(settings | {"group.id": "g"}, network=broker)
        await member.start()
        member.subscribe(["t"])
        await Admin(settings, network=broker).start()
        await broker.abandon()

    def run_and_collect() -> None:
        asyncio.run(main())
        gc.collect()

    with pytest.warns(ResourceWarning) as warned:
        run_and_collect()
    said = sorted(str(warning.message) for warning in warned if "unclosed" in str(warning.message))
    assert said == [
        "unclosed admin",
        "unclosed consumer",
        "unclosed consumer, it stays in group g until its session times out, and its positions since the last commit "
        "are lost",
        "unclosed producer, 2 records unsent",
    ]
    assert "records lost by a producer that was not closed records=2" in caplog.text


@pytest.mark.timeout(120)
def test_a_process_that_ends_names_the_records_that_an_unclosed_producer_loses(kavka_cluster):
    program = f"""
        import asyncio
        from kavka.client import Producer

        async def main():
            global producer
            producer = Producer({{"bootstrap.servers": "{kavka_cluster.bootstrap_servers}", "linger.ms": 60000}})
            await producer.start()
            await producer.partitions_for("t")
            for n in range(5):
                producer.append("t", b"%d" % n)

        asyncio.run(main())
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("records=5") == 1, ended.stderr
    assert "producer not closed before the process ended" in ended.stderr
