"""Configuration of all tests: fixtures of others' programs and of clusters, the order, hypothesis without deadlines.

With `--unit` only the unit tests are collected, which need no Spark, no JDK, and no library of another project.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Machines are shared: how long an example takes says nothing.
settings.register_profile("kavka", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("unit", settings.get_profile("kavka"), max_examples=10)
settings.load_profile("kavka")

pytest_plugins = ["kavka_compat.fixtures", "kavka_fuzz.fixtures", "kavka.testing.plugin"]

_TESTS = Path(__file__).parent
_NO_UNIT_TESTS = {"chaos", "compat", "fuzz", "libraries", "simulation", "spark"}
"""Folders whose tests need what `make unit` does not install, or take long."""
_SLOW = ("compat", "spark", "simulation", "chaos", "fuzz", "slow", "long")
_LONGEST = ("spark", "simulation", "chaos", "fuzz")
_OTHERS_ALONE = {"test_librdkafka.py", "test_python_transactions.py", "test_raw_socket.py"}
"""Files in which no client is ours."""
_OTHERS_PROGRAMS = ("compat", "spark")
"""Marks of tests in which programs run that are not ours, on machines that are shared: these have a second try,
which the summary names (RERUN). Chaos and simulation have one try: what they find is a fact."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--unit", action="store_true", help="collect unit tests only")


def pytest_configure(config: pytest.Config) -> None:
    """Try a tenth of the examples in unit tests; `make test` tries all, and starts Spark quickly."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what runs in its background so, and programs that tests start would ignore Ctrl-C as well.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--unit"):
        settings.load_profile("unit")
    elif find_spec("pyspark") is not None:
        from support.spark import quick_start

        os.environ.setdefault(quick_start.VARIABLE, quick_start.options())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out whole folders, so that their modules are not imported."""
    is_left_out = collection_path.parent == _TESTS and collection_path.name in _NO_UNIT_TESTS
    return True if config.getoption("--unit") and is_left_out else None


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Commands that a test runs in this process send the log elsewhere; the next test hears it again."""
    logger = logging.getLogger("kavka")
    before = logger.level, logger.propagate, list(logger.handlers)
    yield
    logger.setLevel(before[0])
    logger.propagate = before[1]
    logger.handlers[:] = before[2]


@pytest.fixture(autouse=True, scope="module")
def _left_open() -> Iterator[None]:
    """Collect new garbage at the end of a file: what it left open fails its own last test, not another file's."""
    yield
    gc.collect(1)  # the whole heap takes 0.06 s, at each of a thousand files


def pytest_collection_finish() -> None:
    """Let the garbage collector look seldom, and never at what was collected here, which stays until the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run slow tests last, so that a plain mistake shows in the first minute.

    Kafka's tools and others' clients against Kafka's own broker check the tests, not us: `make long` runs them.
    """
    places: dict[pytest.Item, int] = {}
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        is_ours = "kafka_tools" not in parameters and parameters.get("client", "kavka") == "kavka"
        is_ours &= item.path.name not in _OTHERS_ALONE
        if "apache" in (parameters.get("any_broker"), parameters.get("start_broker")) and (
            not is_ours
        ):
            item.add_marker(pytest.mark.long)
        marks = {mark.name for mark in item.iter_markers()}
        if not marks.isdisjoint(_OTHERS_PROGRAMS) and "chaos" not in marks:
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=2))
        places[item] = _place(marks)
    if config.getoption("--unit"):
        slow = [item for item in items if places[item]]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not places[item]]
    items.sort(key=places.__getitem__)


def _place(marks: set[str]) -> int:
    """Return 0 for fast tests, 1 for the longest, 2 for other slow ones, so that no worker ends with a long one."""
    if marks.isdisjoint(_SLOW):
        return 0
    return 2 if marks.isdisjoint(_LONGEST) else 1
