import gc
import signal
import sys
import threading
import time
from linecache import getline
from typing import Any

import pytest

from kavka.client import TopicPartition, blocking
from kavka.client.blocking import loop_thread
from kavka.client.blocking.loop_thread import LoopThread
from kavka.errors import ErrorCode, KafkaError
from kavka.wire.apis import ApiKey

AT = TopicPartition("t", 0)


def test_records_go_in_and_come_out_without_asyncio(broker, settings):
    with blocking.Producer(settings, network=broker) as producer:
        assert producer.send("t", b"a").offset == 0
        assert producer.append("t", b"b") is None
        assert producer.append("t", b"c", want_future=True).result(10).offset == 2
        assert producer.send_many("t", [(None, b"d")])[0].base_offset == 3
    reading = settings | {"auto.offset.reset": "earliest"}
    with blocking.Consumer(reading, network=broker) as consumer:
        consumer.assign([AT])
        found: list[Any] = []
        while len(found) < 4:
            found += [r.value for one in consumer.poll(1000) for r in one.records()]
        assert consumer.position(AT) == 4
        consumer.seek(AT, 2)
        assert next(iter(consumer)).value == b"c"
    assert found == [b"a", b"b", b"c", b"d"]


def test_appending_from_several_threads_loses_nothing(broker, settings):
    with blocking.Producer(settings | {"buffer.memory": 100_000}, network=broker) as producer:
        threads = [
            threading.Thread(
                target=lambda n=n: [producer.append("t", b"%d-%d" % (n, i)) for i in range(3000)]
            )
            for n in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
        values = [value for _, _, value in broker.records("t")]
    for n in range(3):
        mine = [v for v in values if v.startswith(b"%d-" % n)]
        assert mine == [b"%d-%d" % (n, i) for i in range(3000)]


def test_failures_come_to_the_calling_thread(broker, settings):
    broker.faults[ApiKey.PRODUCE].append(ErrorCode.INVALID_RECORD)
    with blocking.Producer(settings, network=broker) as producer:
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            producer.send("t", b"a")
        producer.append("t", 5)
        with pytest.raises(TypeError, match="value is int"):
            producer.flush()
    with pytest.raises(RuntimeError, match="closed"):
        producer.send("t", b"a")
    broker.is_down = True
    with pytest.raises(ConnectionError, match="cannot reach any of"):
        blocking.Admin(settings | {"default.api.timeout.ms": 20}, network=broker)


def test_records_outside_of_a_transaction_are_refused_at_once(broker, settings):
    with blocking.Producer(settings | {"transactional.id": "x"}, network=broker) as producer:
        with pytest.raises(RuntimeError, match="init_transactions"):
            producer.append("t", b"before")
        producer.init_transactions()
        with pytest.raises(RuntimeError, match="begin_transaction"):
            producer.append("t", b"between")
        with producer.transaction():
            producer.append("t", b"inside")
        with pytest.raises(RuntimeError, match="begin_transaction"):
            producer.append("t", b"after", want_future=True)
        producer.flush()
        assert [value for _, _, value in broker.records("t") if value] == [b"inside"]


def test_a_record_that_was_handed_over_cannot_be_taken_back(broker, settings):
    with blocking.Producer(settings, network=broker) as producer:
        future = producer.append("t", b"a", want_future=True)
        assert not future.cancel()
        assert future.result(10).offset == 0
        producer.append("t", b"b")
        producer.flush()
    assert [value for _, _, value in broker.records("t")] == [b"a", b"b"]


def test_leaving_an_iteration_loses_no_record_that_it_did_not_reach(broker, settings):
    with blocking.Producer(settings, network=broker) as producer:
        producer.send_many("t", [(None, b"%d" % i) for i in range(10)])
    reading = settings | {"auto.offset.reset": "earliest", "group.id": "g"}
    with blocking.Consumer(reading, network=broker) as consumer:
        consumer.assign([AT])
        for record in consumer:
            if record.offset == 3:
                break
        assert consumer.position(AT) == 4
        assert next(iter(consumer)).offset == 4
    assert broker.committed == {("t", 0): 5}


STUCK = [ErrorCode.NOT_ENOUGH_REPLICAS] * 100_000
SMALL = {"buffer.memory": 4000, "batch.size": 1000}


def test_closing_in_time_fails_what_was_not_sent_instead_of_raising_a_timeout(
    broker, settings, caplog
):
    broker.faults[ApiKey.PRODUCE].extend(STUCK)
    producer = blocking.Producer(settings | SMALL, network=broker)
    futures = [producer.append("t", b"x" * 100, want_future=True) for _ in range(200)]
    started = time.monotonic()
    producer.close(timeout_ms=100)
    assert time.monotonic() - started < 60  # it would wait for the two minutes of a delivery
    assert "producer closed before all was" in caplog.text
    errors = [future.exception(10) for future in futures]
    assert {type(error) for error in errors} == {ConnectionError, RuntimeError}


def test_closing_in_time_raises_the_failure_of_unwatched_records(broker, settings):
    broker.faults[ApiKey.PRODUCE].extend(STUCK)
    producer = blocking.Producer(settings | SMALL, network=broker)
    for _ in range(200):
        producer.append("t", b"x" * 100)
    with pytest.raises(ConnectionError, match="the producer was closed"):
        producer.close(timeout_ms=100)
    producer.close()


def test_a_flush_counts_the_handing_over_into_its_timeout(broker, settings):
    broker.faults[ApiKey.PRODUCE].extend(STUCK)
    producer = blocking.Producer(settings | SMALL, network=broker)
    futures = [producer.append("t", b"x" * 100, want_future=True) for _ in range(200)]
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        producer.flush(timeout_ms=100)
    assert time.monotonic() - started < 60  # it would wait for the two minutes of a delivery
    broker.faults[ApiKey.PRODUCE].clear()
    producer.close()
    assert sorted(future.result(10).offset for future in futures) == list(range(200))


def interrupted_at(line, call):
    """Call a function, and raise KeyboardInterrupt at the n-th line of `loop_thread` in this thread; return whether."""
    left = line

    def trace(frame, event, _argument):
        nonlocal left
        if frame.f_code.co_filename != loop_thread.__file__:
            return None
        # A line with a lock comes again at its release, where no signal is handled: the lock would stay.
        if event == "line" and "_lock" not in getline(loop_thread.__file__, frame.f_lineno):
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return left <= 0


@pytest.mark.timeout(60)
def test_ctrl_c_at_any_line_leaves_no_coroutine_without_a_start(recwarn):
    thread = LoopThread("test")

    async def answer():
        return 1

    lines = 1
    while interrupted_at(lines, lambda: thread.run(answer)):
        lines += 1
    assert lines > 10
    assert thread.run(answer) == 1  # and it works on
    thread.stop()
    gc.collect()
    assert not recwarn.list


@pytest.mark.timeout(60)
def test_ctrl_c_before_the_start_of_a_call_keeps_it_from_starting(recwarn):
    thread, free, has_begun = LoopThread("test"), threading.Event(), threading.Event()
    main = threading.get_ident()

    async def begin():
        has_begun.set()

    def interrupt():
        while not thread._pending:
            pass
        signal.pthread_kill(main, signal.SIGINT)

    thread.loop.call_soon_threadsafe(free.wait)
    # A program that was started in the background inherits that Ctrl-C is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.run(begin)
    finally:
        interrupting.join()
        signal.signal(signal.SIGINT, before)
    free.set()
    thread.stop()
    assert not has_begun.is_set()
    gc.collect()
    assert not recwarn.list


@pytest.mark.timeout(60)
def test_ctrl_c_while_a_producer_closes_fails_what_is_not_sent(broker, settings, caplog):
    broker.faults[ApiKey.PRODUCE].extend(STUCK)
    producer = blocking.Producer(settings, network=broker)
    errors = []
    producer.append("t", b"1", callback=lambda _, error: errors.append(error))
    producer.append("t", b"2")
    main, thread = threading.get_ident(), producer._thread

    def interrupt():
        while not (producer._closer and thread._pending) or producer._queued:
            pass
        signal.pthread_kill(main, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            producer.close()
    finally:
        interrupting.join()
        signal.signal(signal.SIGINT, before)
    assert [type(error) for error in errors] == [ConnectionError]
    assert "producer closed before all was sent records=2" in caplog.text
