"""The stages of `make fuzz` keep to their time and say how far they are; a signal leaves no process behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from kavka.termination import termination_as_interrupt
from kavka.wire.apis import ApiKey
from kavka_compat.processes import Running
from kavka_fuzz import __main__ as command
from kavka_fuzz import apache
from kavka_fuzz.recipes import Recipe
from kavka_fuzz.search import Finding
from kavka_fuzz.stage import Stage
from kavka_fuzz.target import Cost

HEARTBEAT = Recipe(ApiKey.HEARTBEAT, 4, 100)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_stage_says_every_ten_seconds_what_is_done_and_what_is_left() -> None:
    said: list[str] = []
    clock = Clock()
    stage = Stage("plain recipes", 30, 7, say=said.append, clock=clock)
    while not stage.is_over:
        clock.now += 5
        stage.step()
    stage.end()
    assert said == [
        "plain recipes: 7 of them, at most 30 s",
        "plain recipes: 2 of 7 done, 20 s left",
        "plain recipes: 4 of 7 done, 10 s left",
        "plain recipes: 6 of 7 done, 0 s left",
        "plain recipes: 6 of 7 done in 30 s; the time is over for the others",
    ]


class WorstOnly:
    """A search whose findings are all too much."""

    def __init__(self) -> None:
        self.confirmations = 0

    def worst(self) -> list[Finding]:
        return [Finding(HEARTBEAT, Cost(loop_ms=1000.0)) for _ in range(5)]

    def confirmed(self, finding: Finding) -> Finding:
        self.confirmations += 1
        return finding


def test_nothing_is_measured_again_when_the_time_is_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    search = WorstOnly()
    findings = command._judged(search, 0)  # type: ignore[arg-type]
    assert search.confirmations == 0
    assert [bool(each.reasons) for each in findings] == [True] * 5
    assert "0 of 5 done" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_run_and_the_processes_that_it_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: signal.Signals
) -> None:
    children: list[Running] = []
    # Started in the background, a process inherits an ignored SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    class Started:
        """In place of the broker under test, which takes no part."""

        def __init__(self, directory: Path) -> None:
            directory.mkdir(parents=True)
            children.append(Running(["sleep", "1000"], tmp_path / "out"))

        def end(self) -> None:
            children[0].kill()

    def interrupted(*_: object) -> None:
        os.kill(os.getpid(), number)
        raise AssertionError("the signal was ignored")

    monkeypatch.setattr(command, "Target", Started)
    monkeypatch.setattr(command, "_run", interrupted)
    try:
        assert command.main(["--minutes", "1", "--directory", str(tmp_path), "--no-apache"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert not children[0].alive()


def test_apache_kafka_ends_with_the_run_on_sigterm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child = Running(["sleep", "1000"], tmp_path / "out")

    class Kafka:
        """Apache Kafka's launcher, with another program in place of the broker."""

        def __init__(self, release: str) -> None:
            pass

        def run_zookeeper(self, directory: Path) -> object:
            return nullcontext("127.0.0.1:1")

        def start_with_zookeeper(self, *_: object) -> object:
            return SimpleNamespace(process=child)

    def interrupted(*_: object) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal was ignored")

    monkeypatch.setattr(apache, "ApacheKafka", Kafka)
    monkeypatch.setattr(child, "wait_for", interrupted)
    findings: Sequence[Finding] = [Finding(HEARTBEAT, Cost())]
    with pytest.raises(KeyboardInterrupt), termination_as_interrupt():
        apache.compare(findings, tmp_path, Stage("Apache Kafka", 60, 1, say=print))
    assert not child.alive()
