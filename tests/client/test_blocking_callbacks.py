"""Callbacks of the blocking clients may use their client; forks and the end of the process are noticed."""

import os
import subprocess
import sys
import textwrap
import threading

import pytest

from kavka.client import TopicPartition, blocking
from kavka.client.consumer import RebalanceListener

AT = TopicPartition("t", 0)
READING = {"auto.offset.reset": "earliest", "group.id": "g", "enable.auto.commit": False}


def fill(broker, settings, count):
    with blocking.Producer(settings, network=broker) as producer:
        producer.send_many("t", [(None, b"%d" % n) for n in range(count)])


class Using(RebalanceListener):
    """Does what listeners of Kafka's clients do."""

    def __init__(self):
        self.consumer = None
        self.threads = set()
        self.positions = []

    def on_assigned(self, partitions):
        self.threads.add(threading.current_thread())
        for at in partitions:
            self.consumer.seek(at, 3)

    def on_revoked(self, partitions):
        self.threads.add(threading.current_thread())
        self.positions += [self.consumer.position(at) for at in partitions]
        self.consumer.commit()


@pytest.mark.timeout(30)
def test_a_listener_seeks_and_commits_in_the_thread_that_polls(broker, settings):
    fill(broker, settings, 10)
    listener = Using()
    with blocking.Consumer(settings | READING, network=broker) as consumer:
        listener.consumer = consumer
        consumer.subscribe(["t"], listener=listener)
        (batches,) = consumer.poll(10_000)
        assert [record.offset for record in batches.records()] == [3, 4, 5, 6, 7, 8, 9]
    assert listener.positions == [10]
    assert listener.threads == {threading.current_thread()}
    assert broker.committed == {("t", 0): 10}


@pytest.mark.timeout(30)
def test_what_a_listener_raises_comes_to_the_caller(broker, settings):
    fill(broker, settings, 1)

    class Failing(RebalanceListener):
        def on_assigned(self, partitions):
            raise LookupError("the listener's own mistake")

    with blocking.Consumer(settings | READING, network=broker) as consumer:
        consumer.subscribe(["t"], listener=Failing())
        with pytest.raises(LookupError, match="own mistake"):
            consumer.poll(10_000)


@pytest.mark.timeout(30)
def test_a_delivery_callback_sends(broker, settings):
    sent = threading.Event()
    with blocking.Producer(settings, network=broker) as producer:

        def send_more(metadata, error):
            assert error is None
            assert producer.send("t", b"from the callback").offset == 3
            sent.set()

        def send_second(future):
            producer.send("t", b"from the future")
            producer.append("t", b"third", callback=send_more)

        producer.append("t", b"first", want_future=True).add_done_callback(send_second)
        assert sent.wait(20)
        values = [value for _, _, value in broker.records("t")]
    assert values == [b"first", b"from the future", b"third", b"from the callback"]


@pytest.mark.timeout(30)
def test_a_callback_that_raises_ends_nothing(broker, settings, caplog):
    done = threading.Event()

    def fail(metadata, error):
        raise LookupError("the callback's own mistake")

    with blocking.Producer(settings, network=broker) as producer:
        producer.append("t", b"1", callback=fail)
        producer.append("t", b"2", callback=lambda metadata, error: done.set())
        assert done.wait(20)
    assert "delivery callback failed" in caplog.text


@pytest.mark.timeout(30)
def test_an_interceptor_that_calls_its_producer_gets_an_error_in_place_of_a_wait_without_end(
    broker, settings, caplog
):
    class Calling:
        def on_send(self, record):
            producer.send("t", b"again")
            return record

        def on_acknowledgement(self, *_):
            pass

    with blocking.Producer(
        settings | {"interceptor.classes": [Calling()]}, network=broker
    ) as producer:
        producer.send("t", b"1")
    assert "its own event loop" in caplog.text


@pytest.mark.timeout(60)
def test_a_forked_child_is_told_to_make_its_own_client(broker, settings):
    with blocking.Producer(settings, network=broker) as producer:
        producer.send("t", b"1")
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                producer.send("t", b"2")
                answer = "sent"
            except RuntimeError as error:
                answer = str(error)
            try:
                producer.append("t", b"3")
                answer += " appended"
            except RuntimeError:
                pass
            producer.close()
            os.write(write_end, answer.encode())
            os._exit(0)
        os.close(write_end)
        assert os.waitpid(child, 0)[1] == 0
        answer = os.read(read_end, 1000).decode()
        os.close(read_end)
        assert "Make the client in the child" in answer
        assert "appended" not in answer
        producer.send("t", b"4")
        assert [value for _, _, value in broker.records("t")] == [b"1", b"4"]


def run_program(text):
    program = textwrap.dedent(text)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.timeout(120)
def test_a_process_that_ends_sends_what_was_appended_and_says_so(kavka_cluster):
    ended = run_program(
        f"""
        from kavka.client import blocking
        settings = {{"bootstrap.servers": "{kavka_cluster.bootstrap_servers}", "linger.ms": 2000}}
        producer = blocking.Producer(settings)
        for n in range(5):
            producer.append("t", b"%d" % n)
        """,
    )
    assert ended.returncode == 0, ended.stderr
    assert "producer not closed before the process ended records=5" in ended.stderr
    reading = {"bootstrap.servers": kavka_cluster.bootstrap_servers, **READING}
    with blocking.Consumer(reading) as consumer:
        consumer.assign([AT])
        assert [next(consumer).value for _ in range(5)] == [b"%d" % n for n in range(5)]


@pytest.mark.timeout(120)
def test_a_process_that_cannot_send_at_its_end_says_what_is_lost():
    ended = run_program(
        """
        import tempfile
        from pathlib import Path
        from kavka.client import blocking
        from kavka.testing.local_cluster import LocalCluster

        with tempfile.TemporaryDirectory() as path, LocalCluster(Path(path), brokers=1) as cluster:
            producer = blocking.Producer({"bootstrap.servers": cluster.bootstrap_servers})
            producer.send("t", b"first")
            cluster.kill(1)
            producer.append("t", b"lost")
        """
    )
    assert ended.returncode == 0, ended.stderr
    assert "records lost at the end of the process records=1" in ended.stderr
