"""The pytest plugin in runs of pytest: tests are kept apart, failures have a report, and nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kavka.storage.directory.log_directory import LOCK_FILE
from kavka.storage.disk.os_disk import OsDisk
from kavka.testing import NotInTime, running_cluster, wait_for
from kavka.testing.hosted_cluster import HostedCluster
from kavka.testing.secured import SecurityOptions
from support.waiting import wait_until

pytest_plugins = ["pytester"]

ALONE = ("-p", "no:cacheprovider", "-p", "no:randomly", "-W", "error")

TESTS = """
import pytest

def test_topics_are_unique(kavka_broker, kavka_topic):
    assert kavka_topic.name.startswith("test-topics-are-unique-")
    first, second = kavka_broker.topic("orders"), kavka_broker.topic("orders")
    assert first.name != second.name
    assert first.send("tea", "k", headers={"a": "1"}) == 0
    (record,) = first.wait_for(1)
    assert (record.value, record.key, record.header("a")) == (b"tea", b"k", b"1")
    assert second.records() == []

def test_leaves_a_topic_faults_and_a_dead_broker(kavka_broker):
    kavka_broker.topic("orders", exact=True).send("mine")
    kavka_broker.fail("Metadata", "BROKER_NOT_AVAILABLE")
    kavka_broker.refuse_connections()
    kavka_broker.kill()
    assert kavka_broker.running == []

def test_finds_none_of_them(kavka_broker):
    from kavka.client.blocking import Producer

    assert kavka_broker.running == [1]
    assert kavka_broker.existing_topic("orders").records() == []
    with Producer({"bootstrap.servers": kavka_broker.bootstrap_servers}) as producer:
        assert producer.send("orders", b"other").offset == 0

@pytest.fixture
def application(kavka_session_broker):
    from kavka.client.blocking import Producer

    yield
    with Producer({"bootstrap.servers": kavka_session_broker.bootstrap_servers}) as producer:
        producer.send("orders", b"after the test")

def test_an_application_goes_on_after_it(application, kavka_broker):
    assert kavka_broker.existing_topic("orders").records() == []
    kavka_broker.topic("orders", exact=True)

def test_finds_nothing_that_was_written_between_tests(kavka_broker):
    assert kavka_broker.existing_topic("orders").records() == []

@pytest.fixture(scope="module")
def orders(kavka_session_broker):
    topic = kavka_session_broker.topic("orders", exact=True)
    topic.send("tea")
    return topic

@pytest.mark.parametrize("time", [1, 2])
def test_a_topic_of_the_modules_own_stays(orders, kavka_broker, time):
    assert orders.values() == [b"tea"]

def test_transactions(kavka_topic):
    with kavka_topic.transaction() as transaction:
        transaction.send("committed")
        assert (kavka_topic.values(), len(kavka_topic.values(committed=False))) == ([], 1)
    with pytest.raises(ZeroDivisionError), kavka_topic.transaction() as transaction:
        transaction.send("aborted")
        1 / 0
    assert kavka_topic.values() == [b"committed"]
    assert kavka_topic.values(committed=False) == [b"committed", b"aborted"]

@pytest.fixture(scope="module")
def pair(kavka_start):
    with kavka_start(brokers=2) as cluster:
        yield cluster

def test_a_cluster_of_the_modules_own(pair, kavka_session_broker):
    assert pair.numbers == [1, 2]
    assert pair.bootstrap_servers != kavka_session_broker.bootstrap_servers
    topic = pair.topic("t", replication_factor=2)
    topic.send_many(["a", ("k", "b")])
    pair.until_replicated(topic)
"""


@pytest.mark.slow
def test_a_run_without_conftest_passes_and_leaves_no_data(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    base = pytester.path / "base"
    result = pytester.runpytest(*ALONE, f"--basetemp={base}")
    result.assert_outcomes(passed=9)
    assert not list(base.glob("kavka[0-9]*"))


FAILING = """
import os

def test_an_order(kavka_broker):
    orders = kavka_broker.topic("orders")
    orders.send("tea", "k")
    kavka_broker.restart()
    orders.wait_for(2, timeout_s=0)

def test_without_a_topic(kavka_start):
    raise ValueError
"""


@pytest.mark.slow
def test_the_report_of_a_failure_shows_topics_and_log_and_data_are_kept(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(FAILING)
    base = pytester.path / "base"
    result = pytester.runpytest(*ALONE, f"--basetemp={base}", "--kavka-log-lines=5")
    result.assert_outcomes(failed=2)
    # Those of the first test are not the second one's.
    assert result.stdout.str().count("Kafka topics of the test") == 1
    result.stdout.fnmatch_lines(
        [
            "E  *NotInTime: waited 0 s for 2 records in orders-*",
            "*- Kafka topics of the test -*",
            "orders-* has 1 record, the last ones:",
            "  orders-*-0@0 key=b'k' value=b'tea'",
            "*- Kafka brokers' log of the test -*",
            "... (* lines before, in *brokers.log)",
            "* INFO * broker-1 kavka.broker.*",
            "*- Kafka brokers' data -*",
            "*base*kavka*",
        ]
    )
    assert list(base.glob("kavka[0-9]*/shared/broker-1/orders-*-0/*.log"))


@pytest.mark.slow
def test_options_and_the_ini_file_have_effect(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    pytester.makeini("[pytest]\nkavka_brokers = 2\nkavka_settings =\n    num.partitions=3\n")
    pytester.makepyfile(
        """
        def test_settings(kavka_cluster):
            assert kavka_cluster.numbers == [1, 2]
            topic = kavka_cluster.topic("t", partitions=-1)
            assert len(topic.end_offsets()) == 4

        def test_persistent(kavka_broker):
            kavka_broker.topic("kept").send("a")
        """
    )
    words = [
        *ALONE,
        "--kavka-setting=num.partitions=4",
        "--kavka-dir=data",
        "--kavka-keep-data=always",
    ]
    pytester.runpytest(*words).assert_outcomes(passed=2)
    pytester.runpytest(*words).assert_outcomes(passed=2)
    pytester.runpytest(*words, "--kavka-keep-data=failed").assert_outcomes(passed=2)
    found = sorted(each.name for each in (pytester.path / "data").iterdir())
    assert found == ["brokers.log", "cluster-1", "cluster-2", "shared"]
    # What the first run wrote was there for the second, and a cluster of a test began with nothing.
    assert len(list((pytester.path / "data").rglob("kept-*-0"))) == 2


WRONG = """
import pytest

@pytest.mark.kavka_cluster(2)
def test_without_a_name(kavka_cluster):
    pass

@pytest.mark.kavka_cluster(broker=2)
def test_with_a_wrong_name(kavka_cluster):
    pass

def test_started_with_a_wrong_name(kavka_start):
    kavka_start(settings={}, folder="shared")
"""


def test_arguments_of_a_cluster_that_there_are_not_are_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(WRONG)
    result = pytester.runpytest(*ALONE)
    result.assert_outcomes(errors=2, failed=1)
    for words in (
        "kavka_cluster: give 2 by its name, as in brokers=3",
        "kavka_cluster: no argument 'broker'; these are: brokers, settings, users, *",
        "kavka_start: no argument 'folder'; these are: brokers, settings, users, *",
    ):
        result.stdout.fnmatch_lines([f"E  *TypeError: {words}"])


def test_a_report_shows_the_line_of_the_test_and_waits_for_no_broker_that_cannot_answer(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import pytest
        from kavka.client.blocking import Producer

        def test_on_a_full_disk(kavka_broker, kavka_topic):
            kavka_broker.fill_disk()
            quick = {"delivery.timeout.ms": 400, "request.timeout.ms": 300, "linger.ms": 0}
            quick["enable.idempotence"] = False
            with Producer({**kavka_broker.client_settings("kavka"), **quick}) as producer:
                producer.send(kavka_topic.name, b"a")

        def test_with_a_mistake(kavka_broker, kavka_topic):
            kavka_broker.pause()
            kavka_broker.delay("Produced", 1)
        """
    )
    result = pytester.runpytest(*ALONE, "--kavka-log-lines=200")
    result.assert_outcomes(failed=2)
    lines = [
        "the topics are not read: broker 1 has lost its log directory, as its disk was full",
        '>*kavka_broker.delay("Produced", 1)',
        "E * ValueError: 'Produced' is no API; did you mean Produce[?]",
        "the topics are not read: broker 1 is paused",
    ]
    result.stdout.fnmatch_lines(lines)
    shown = result.stdout.str()
    assert "host_process.py" not in shown
    assert shown.count("failed log directory not reported yet") == 1, "each reason once"


@pytest.mark.slow
def test_a_conftest_chooses_what_the_shared_broker_is(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kavka_session_broker(kavka_start):
            with kavka_start(brokers=2, settings={"num.partitions": 3}) as cluster:
                yield cluster
        """
    )
    pytester.makepyfile(
        """
        def test_its_settings_hold(kavka_broker):
            assert len(kavka_broker.topic("t", partitions=-1).end_offsets()) == 3
            kavka_broker.kill(2)

        def test_it_is_whole_again(kavka_broker, kavka_topic):
            assert kavka_broker.running == [1, 2]
            assert kavka_topic.send("a") == 0
        """
    )
    pytester.runpytest(*ALONE).assert_outcomes(passed=2)


def test_a_directory_of_another_run_is_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    pytester.makepyfile("def test_broker(kavka_broker): pass")
    directory = pytester.path / "data" / "shared" / "broker-1"
    directory.mkdir(parents=True)
    lock = OsDisk().lock(str(directory / LOCK_FILE))
    try:
        result = pytester.runpytest(*ALONE, "--kavka-dir=data")
    finally:
        lock.release()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["E  *RuntimeError: --kavka-dir=data: another run of pytest uses it"]
    )


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--kavka-brokers=none", "--kavka-brokers=none: give a number from 1 on"),
        ("--kavka-log-level=loud", "--kavka-log-level=loud: one of info, debug, warning, error"),
        ("--kavka-setting=a", "--kavka-setting 'a': give NAME=VALUE"),
    ],
)
def test_a_wrong_option_is_refused(pytester: pytest.Pytester, word: str, message: str) -> None:
    result = pytester.runpytest(*ALONE, word)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{message}*".replace("[", "[[]")])


def test_a_setting_that_is_the_fixtures_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"listeners: the fixture sets this itself; leave it out"):
        HostedCluster(
            tmp_path,
            brokers=1,
            settings={"listeners": "PLAINTEXT://:9092"},
            security=SecurityOptions(),
            has_registry=False,
        )


@pytest.mark.long
def test_workers_of_xdist_have_brokers_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_alone(kavka_broker, kavka_topic, number, worker_id, tmp_path_factory):
            kavka_topic.send(worker_id)
            seen = tmp_path_factory.getbasetemp().parent / f"{worker_id}-{kavka_broker.pid}"
            seen.touch()
            assert kavka_topic.values() == [worker_id.encode()]
        """
    )
    base = pytester.path / "base"
    result = pytester.runpytest_subprocess(*ALONE, "-n2", f"--basetemp={base}")
    result.assert_outcomes(passed=4)
    names = [path.name.split("-") for path in base.glob("gw*-*") if path.is_file()]
    assert len({worker for worker, _ in names}) == len({pid for _, pid in names}) == len(names) == 2
    for _, pid in names:
        wait_until(lambda pid=pid: not is_alive(int(pid)))  # type: ignore[misc]


KILLED = """
import os, time

def test_is_killed(kavka_broker):
    if os.fork() == 0:  # a child that outlives the test must not keep the broker alive
        time.sleep(60)
        os._exit(0)
    import kavka.client.config

    how = type(kavka.client.config.__loader__).__name__
    print("pids", how, os.getpid(), kavka_broker.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_brokers_end_when_the_run_is_killed(pytester: pytest.Pytester) -> None:
    # As pytest does with the modules of an installed kavka, not of a checkout.
    pytester.makeconftest("import pytest; pytest.register_assert_rewrite('kavka')")
    pytester.makepyfile(KILLED)
    quiet = "ignore::pytest.PytestAssertRewriteWarning"  # it says that the plugin is imported
    words = [sys.executable, "-m", "pytest", *ALONE, "-W", quiet, "-s", "--basetemp=base"]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert run.stdout is not None
        line = next(line for line in run.stdout if "pids" in line)
        how, *pids = line.split()[-3:]
        assert how == "SourceFileLoader", "kavka's modules are imported as they are written"
        pytest_pid, broker_pid = map(int, pids)
        os.kill(pytest_pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(broker_pid))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)  # the child of the test, and pytest if it lives
        run.communicate()


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_forked_child_cannot_use_the_fixture_and_does_not_disturb_it(kavka_broker) -> None:
    topic = kavka_broker.topic("t")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            topic.send("from the child")
        except RuntimeError as error:
            code = 0 if "in the process of the test only" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert topic.send("a") == 0


def test_a_run_that_uses_no_fixture_imports_the_plugin_and_nothing_more() -> None:
    program = (
        "import sys, pytest, kavka.testing.plugin; print(*(n for n in sys.modules if 'kavka' in n))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    modules = set(done.stdout.split()) - {
        name for name in done.stdout.split() if name.startswith("__")
    }
    assert modules == {"kavka", "kavka.testing", "kavka.testing.plugin"}


def test_a_wait_says_what_was_there() -> None:
    with pytest.raises(NotInTime, match=r"^waited 0 s for the sum; the last value: 0$"):
        wait_for(lambda: 0, "the sum", timeout_s=0)

    def asserts() -> bool:
        assert not ALONE, "one is not two"
        return True

    with pytest.raises(NotInTime, match=r"asserts; the last assertion: one is not two"):
        wait_for(asserts, timeout_s=0)
    assert wait_for(lambda: "found") == "found"


@pytest.mark.slow
def test_a_cluster_without_pytest_ends_with_its_block(tmp_path: Path) -> None:
    with running_cluster(directory=tmp_path / "kept", settings={"num.partitions": 2}) as cluster:
        topic = cluster.topic("t", partitions=-1)
        assert len(topic.end_offsets()) == 2
    assert not is_alive(cluster.pid)
    with pytest.raises(RuntimeError, match="the process of the brokers has ended"):
        topic.send("a")
    assert (tmp_path / "kept" / "brokers.log").is_file()


@pytest.mark.slow
def test_a_cluster_whose_block_is_never_left_ends_with_the_program(tmp_path: Path) -> None:
    program = """
import unittest
from kavka.testing import running_cluster

class Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(running_cluster(brokers=1))

    def test_ctrl_c(self):
        print(self.cluster.pid, flush=True)
        raise KeyboardInterrupt

unittest.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not is_alive(int(done.stdout))
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt", done.stderr
    assert list(tmp_path.iterdir()) == []
