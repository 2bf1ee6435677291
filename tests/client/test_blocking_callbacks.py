"""Callbacks of the blocking clients may use their client; forks and the end of the process are noticed."""

import inspect
import logging
import os
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest

from kavka.client import AbortableError, Producer, TopicPartition, blocking
from kavka.client.blocking.loop_thread import CallbackThread
from kavka.client.consumer import RebalanceListener
from kavka.errors import ErrorCode
from kavka.wire.apis import ApiKey

AT = TopicPartition("t", 0)
READING = {"auto.offset.reset": "earliest", "group.id": "g", "enable.auto.commit": False}


def fill(broker, settings, count):
    with blocking.Producer(settings, network=broker) as producer:
        producer.send_many("t", [(None, b"%d" % n) for n in range(count)])


class Using(RebalanceListener):
    """Does what listeners of Kafka's clients do."""

    def __init__(self) -> None:
        self.consumer = None
        self.threads: set[Any] = set()
        self.positions: list[Any] = []

    def on_assigned(self, partitions):
        self.threads.add(threading.current_thread())
        for topic_partition in partitions:
            self.consumer.seek(topic_partition, 3)  # type: ignore[attr-defined]

    def on_revoked(self, partitions):
        self.threads.add(threading.current_thread())
        position = self.consumer.position  # type: ignore[attr-defined]
        self.positions += [position(topic_partition) for topic_partition in partitions]
        self.consumer.commit()  # type: ignore[attr-defined]


@pytest.mark.timeout(30)
def test_a_listener_seeks_and_commits_in_the_thread_that_polls(broker, settings):
    fill(broker, settings, 10)
    listener = Using()
    with blocking.Consumer(settings | READING, network=broker) as consumer:
        listener.consumer = consumer  # type: ignore[assignment]
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


def sending(producer, outcomes, value=b"from a callback"):
    """Return a callback that sends before it notes its outcome."""

    def callback(metadata, error):
        producer.send("t", value)
        outcomes.append((metadata, error))

    return callback


@pytest.mark.timeout(60)
@pytest.mark.parametrize("how", ["callback", "future"])
def test_flush_returns_after_the_callbacks_of_what_was_appended(broker, settings, how):
    outcomes: list[Any] = []
    with blocking.Producer(settings, network=broker) as producer:
        for n in range(20):
            if how == "callback":
                producer.append("t", b"%d" % n, callback=sending(producer, outcomes))
                continue
            future = producer.append("t", b"%d" % n, want_future=True)
            future.add_done_callback(lambda done: sending(producer, outcomes)(done.result(), None))
        producer.flush()
        assert len(outcomes) == 20


@pytest.mark.timeout(60)
def test_close_returns_after_the_callbacks_which_may_send_and_append(broker, settings):
    outcomes = []
    producer = blocking.Producer(settings, network=broker)

    def append_one_more(metadata, error):
        producer.append("t", b"more", callback=lambda *outcome: outcomes.append(outcome))
        outcomes.append((metadata, error))

    for n in range(20):
        producer.append("t", b"%d" % n, callback=append_one_more)
    producer.close()
    assert len(outcomes) == 40
    assert {error for _, error in outcomes} == {None}
    assert [value for _, _, value in broker.records("t")].count(b"more") == 20


@pytest.mark.timeout(60)
def test_a_commit_and_an_abort_return_after_the_callbacks_of_their_records(broker, settings):
    errors = []
    with blocking.Producer(settings | {"transactional.id": "x"}, network=broker) as producer:

        def note(metadata, error):
            producer.partitions_for("t")
            errors.append(error)

        producer.init_transactions()
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            for n in range(20):
                producer.append("t", b"%d" % n, callback=note)
            end()
            assert len(errors) == 20
            errors.clear()


@pytest.mark.timeout(60)
def test_a_callback_flushes_without_a_wait_for_itself(broker, settings):
    called = []
    with blocking.Producer(settings, network=broker) as producer:

        def flush(metadata, error):
            producer.append("t", b"appended by the callback")
            producer.flush()
            called.append(len(broker.records("t")))

        producer.append("t", b"1", callback=flush)
        producer.append("t", b"2", callback=flush)
        producer.flush()
        assert len(called) == 2
    assert len(broker.records("t")) == 4


@pytest.mark.timeout(60)
def test_a_callback_closes_its_producer_and_those_behind_it_are_called(broker, settings):
    called = []
    producer = blocking.Producer(settings, network=broker)

    def close(metadata, error):
        producer.close()
        called.append("closed")

    producer.append("t", b"1", callback=close)
    for _ in range(3):
        producer.append("t", b"2", callback=lambda metadata, error: called.append(error))  # type: ignore[arg-type]
    callbacks = producer._thread.callbacks
    producer.close()
    assert callbacks.wait(20)
    assert called == ["closed", None, None, None]


@pytest.mark.timeout(60)
def test_a_flush_says_how_long_callbacks_took_that_have_not_returned(broker, settings, caplog):
    release = threading.Event()
    producer = blocking.Producer(settings, network=broker)
    producer.append("t", b"1", callback=lambda *_: release.wait(30))  # type: ignore[arg-type]
    with pytest.raises(TimeoutError, match="callbacks have not returned within 200 ms"):
        producer.flush(200)
    producer.close(timeout_ms=200)
    assert "producer closed before all callbacks were called callbacks=1" in caplog.text
    release.set()


@pytest.mark.timeout(60)
def test_a_record_that_is_appended_while_the_loop_ends_is_refused_to_its_callback(
    broker, settings, caplog
):
    errors = []
    producer = blocking.Producer(settings, network=broker)

    def note(metadata, error):
        errors.append(error)
        raise LookupError("the callback's own mistake")

    class Late(logging.Handler):
        """Appends after the last drain, when the callbacks were not called in time."""

        def emit(self, record):
            if record.levelno != logging.WARNING:
                return
            producer._is_draining = True  # the loop takes nothing any more
            producer.append("t", b"late", callback=note)
            producer.append("t", b"late", want_future=True).add_done_callback(
                lambda done: errors.append(done.exception())
            )

    release = threading.Event()
    producer.append("t", b"1", callback=lambda *_: release.wait(30))  # type: ignore[arg-type]
    late = Late()
    logging.getLogger("kavka.client.blocking").addHandler(late)
    try:
        producer.close(timeout_ms=100)
    finally:
        logging.getLogger("kavka.client.blocking").removeHandler(late)
        release.set()
    assert [str(error) for error in errors] == ["the producer is closed"] * 2
    assert "delivery callback failed" in caplog.text


def test_what_waits_is_counted(broker, settings):
    broker.faults[ApiKey.PRODUCE].extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 100_000)
    producer = blocking.Producer(settings, network=broker)
    for _ in range(5):
        producer.append("t", b"", want_future=True)
    assert producer.waiting_records() == 5
    broker.faults[ApiKey.PRODUCE].clear()
    producer.flush()
    assert producer.waiting_records() == 0
    producer.close()


def test_callbacks_that_end_their_thread_end_no_other_callback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    callbacks, called = CallbackThread("callbacks"), []
    callbacks.call(sys.exit)
    callbacks.call(lambda: called.append(1))
    assert callbacks.wait()
    callbacks.stop()
    assert callbacks.wait()
    assert called == [1]


def fail_to_serialize(value):
    if value == b"bad":
        raise LookupError("the serializer's own mistake")
    return value


class Misbehaving:
    """An interceptor that returns no record."""

    def __init__(self) -> None:
        self.errors: list[Any] = []

    def on_send(self, record):
        return None if record.value == b"bad" else record

    def on_acknowledgement(self, metadata, error):
        self.errors.append(error)


WRONG = {
    "too large": ({}, b"x" * 2_000_000, {}, "MESSAGE_TOO_LARGE"),
    "no bytes": ({}, 5, {}, "value is int"),
    "serializer": ({"value.serializer": fail_to_serialize}, b"bad", {}, "own mistake"),
    "interceptor": ({"interceptor.classes": [Misbehaving()]}, b"bad", {}, "NoneType"),
    "partition": ({}, b"", {"partition": 7}, "partitions 0 to 0, not 7"),
    "timestamp": ({}, b"", {"timestamp_ms": -5}, "Invalid timestamp: -5"),
    "headers": ({}, b"", {"headers": [(b"name", b"")]}, "name of a header is bytes"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("knows_topic", [True, False])
@pytest.mark.parametrize("wrong", WRONG)
def test_whatever_is_wrong_with_a_record_its_callback_is_called_once(
    broker, settings, wrong, knows_topic
):
    more, value, options, reason = WRONG[wrong]
    outcomes = []
    with blocking.Producer(settings | more, network=broker) as producer:
        if knows_topic:
            producer.send("t", b"first")
        future = producer.append(  # type: ignore[arg-type]
            "t", value, callback=lambda *got: outcomes.append(got), want_future=True, **options
        )
        producer.append("t", value, callback=lambda *got: outcomes.append(got), **options)  # type: ignore[arg-type]
        producer.flush()  # these failures are watched
        assert reason in str(future.exception(0))
        assert [metadata for metadata, _ in outcomes] == [None, None]
        assert all(reason in str(error) for _, error in outcomes)
        producer.append("t", value, **options)  # type: ignore[arg-type]
        with pytest.raises(type(outcomes[0][1]), match=reason):
            producer.flush()
    assert len(outcomes) == 2


@pytest.mark.timeout(60)
def test_records_that_the_broker_refuses_call_their_callbacks_once(broker, settings):
    broker.faults[ApiKey.PRODUCE].append(ErrorCode.INVALID_RECORD)  # a null key, compacted topic
    outcomes = []
    with blocking.Producer(settings, network=broker) as producer:
        for _ in range(3):
            producer.append("t", b"", callback=lambda *outcome: outcomes.append(outcome))
        producer.flush()
    assert len(outcomes) == 3
    assert "INVALID_RECORD" in str(outcomes[0][1])


@pytest.mark.timeout(60)
def test_records_that_were_not_sent_before_a_close_call_their_callbacks_once(broker, settings):
    broker.faults[ApiKey.PRODUCE].extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 100_000)
    small = {"buffer.memory": 4000, "batch.size": 1000}
    producer = blocking.Producer(settings | small, network=broker)
    errors = []
    for _ in range(200):
        producer.append("t", b"x" * 100, callback=lambda _, error: errors.append(error))
    callbacks = producer._thread.callbacks
    producer.close(timeout_ms=100)
    assert callbacks.wait(20)
    assert {type(error) for error in errors} == {ConnectionError, RuntimeError}
    assert len(errors) == 200


@pytest.mark.timeout(60)
@pytest.mark.parametrize("option", ["callback", "want_future"])
def test_a_wrong_record_that_is_watched_aborts_its_transaction_all_the_same(
    broker, settings, option
):
    with blocking.Producer(settings | {"transactional.id": "x"}, network=broker) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.append("t", 5, **{option: print if option == "callback" else True})  # type: ignore[arg-type]
        with pytest.raises(AbortableError, match="value is int"):
            producer.commit_transaction()
        producer.abort_transaction()


def test_a_misspelt_keyword_is_refused_at_the_call(broker, settings):
    with blocking.Producer(settings, network=broker) as producer:
        for send in (producer.append, producer.send, producer.send_many):
            with pytest.raises(TypeError, match="unexpected keyword argument 'timestamp'"):
                send("t", [], timestamp=5)  # type: ignore[call-arg]
        producer.flush()
    assert broker.records("t") == []


def test_help_shows_the_keywords_of_the_clients_methods() -> None:
    wanted = ["topic", "value", "key", "partition", "timestamp_ms", "headers"]
    for producer in (blocking.Producer, Producer):
        assert list(inspect.signature(producer.send).parameters)[1:] == wanted
        shown = list(inspect.signature(producer.append).parameters)[1:]
        assert shown == [*wanted, "want_future", "callback"]


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
def test_a_forked_child_gets_an_error_and_must_make_its_own_client(broker, settings):
    with blocking.Producer(settings, network=broker) as producer:
        producer.send("t", b"1")
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                producer.send("t", b"2")
                response = "sent"
            except RuntimeError as error:
                response = str(error)
            try:
                producer.append("t", b"3")
                response += " appended"
            except RuntimeError:
                pass
            producer.close()
            os.write(write_end, response.encode())
            os._exit(0)
        os.close(write_end)
        assert os.waitpid(child, 0)[1] == 0
        response = os.read(read_end, 1000).decode()
        os.close(read_end)
        assert "Make the client in the child" in response
        assert "appended" not in response
        producer.send("t", b"4")
        assert [value for _, _, value in broker.records("t")] == [b"1", b"4"]


@pytest.mark.timeout(90)
@pytest.mark.parametrize("end", ["sys.exit()", "return", "raise LookupError"])
def test_a_child_that_a_callback_forks_ends_with_the_callback(end):
    """It waited for further callbacks without end, and called those that were the parent's."""
    ended = run_program(
        f"""
        import os, sys, time
        from kavka.client.blocking.loop_thread import CallbackThread

        def fork():
            global child
            child = os.fork()
            if child == 0:
                {end}

        calls = CallbackThread("callbacks")
        calls.call(fork)
        calls.call(lambda: os.write(1, b"called once"))
        assert calls.wait(20)
        until = time.monotonic() + 20
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            if time.monotonic() > until:
                os.kill(child, 9)
                raise AssertionError("the child does not end")
            time.sleep(0.01)  # time: in a program of its own, without tests/support
        """
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "called once"


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


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_process_that_cannot_send_at_its_end_says_what_is_lost() -> None:
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
            for _ in range(1000):
                producer.append("t", b"lost", callback=print)
        """
    )
    assert ended.returncode == 0, ended.stderr
    assert (
        "records lost at the end of the process records=1000 "
        "reason=1000 records were not acknowledged within 5000 ms: cannot connect to 127.0.0.1:"
    ) in ended.stderr
    assert "callbacks not called at the end of the process callbacks=1000" in ended.stderr
    assert ended.stderr.count("callback") == 2
    assert ended.stdout == ""


@pytest.mark.timeout(120)
def test_a_process_that_ends_calls_the_callbacks_of_what_it_sends(kavka_cluster):
    ended = run_program(
        f"""
        from kavka.client import blocking
        settings = {{"bootstrap.servers": "{kavka_cluster.bootstrap_servers}"}}
        producer = blocking.Producer(settings)
        outcomes = []

        def callback(metadata, error):
            producer.partitions_for("t")
            outcomes.append(error)
            if len(outcomes) == 500:
                print("all were called", set(outcomes))

        for n in range(500):
            producer.append("t", b"%d" % n, callback=callback)
        """,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "all were called {None}\n"
    assert "callback" not in ended.stderr
