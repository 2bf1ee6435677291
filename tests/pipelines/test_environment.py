"""The Python that processes of a driver and of executors run with."""

from __future__ import annotations

import os
import sys

import pytest

from kavka.pipelines.session import SparkOptions, prepare_environment

PYTHON, OF_DRIVER = "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"


def chosen(monkeypatch: pytest.MonkeyPatch, master: str, **given: str) -> tuple[str, str]:
    """Return the Pythons of executors and driver for the variables that a user has set."""
    monkeypatch.setattr(os, "environ", dict(given))
    prepare_environment(SparkOptions(master=master))
    return os.environ[PYTHON], os.environ[OF_DRIVER]


@pytest.mark.parametrize("master", ["local[2]", "spark://m:7077"])
def test_it_is_the_commands_own(monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    assert chosen(monkeypatch, master) == (sys.executable, sys.executable)


def test_the_users_holds_for_all_processes_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(monkeypatch, "local[2]", PYSPARK_PYTHON="/p") == ("/p", "/p")


def test_the_executors_is_not_the_drivers_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    found = chosen(monkeypatch, "spark://m:7077", PYSPARK_PYTHON="./env/bin/python")
    assert found == ("./env/bin/python", sys.executable)


def test_what_the_user_has_chosen_for_the_driver_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {PYTHON: "/p", OF_DRIVER: "/d"}
    assert chosen(monkeypatch, "local[2]", **given) == ("/p", "/d")
