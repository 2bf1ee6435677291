"""`kafka-features` of Apache Kafka works against our brokers, and `kavka features` says the same."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kavka_compat.apache import ApacheKafka, Finished
from kavka_compat.ours import kavka_command, run_kavka

pytestmark = [pytest.mark.compat, pytest.mark.timeout(240)]

_LEVEL = "transaction.version"
_WORDS = (
    ("describe",),
    ("upgrade", "--feature", f"{_LEVEL}=0"),
    ("upgrade", "--feature", f"{_LEVEL}=3"),
    ("upgrade", "--feature", "group.version=1"),
    ("downgrade", "--feature", f"{_LEVEL}=1", "--dry-run"),
    ("downgrade", "--feature", f"{_LEVEL}=1"),
    ("disable", "--feature", _LEVEL),
    ("describe",),
    ("upgrade", "--feature", f"{_LEVEL}=2", "--dry-run"),
    ("upgrade", "--feature", f"{_LEVEL}=2"),
)


@pytest.mark.parametrize("release", [pytest.param("3.9", marks=pytest.mark.long), "4.1"])
def test_both_tools_change_our_features_and_say_the_same(release: str, tmp_path: Path) -> None:
    tool = ApacheKafka(release)
    with run_kavka(tmp_path / "theirs") as theirs, run_kavka(tmp_path / "ours") as ours:
        for words in _WORDS:
            said = tool.tool("kafka-features", "--bootstrap-server", theirs.bootstrap, *words)
            mine = _ours("--bootstrap-server", ours.bootstrap, *words)
            assert (mine.code, mine.out) == (said.code, said.out), words
            assert bool(mine.err) == bool(said.err), words


def _ours(*words: str) -> Finished:
    command = kavka_command("features", *words)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return Finished(done.returncode, done.stdout, done.stderr)
