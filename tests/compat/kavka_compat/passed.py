"""The list of what passes against our broker, `tests/compat/PASSED.txt`: one test id a line, sorted. It only grows.

Run as a program (`make passed`), it runs the tests that are not on the list yet and adds those that pass.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LIST = Path(__file__).resolve().parent.parent / "PASSED.txt"
_ROOT = LIST.parent.parent.parent
_FOLDER = "tests/compat"
_MACHINERY = (f"{_FOLDER}/test_fixtures.py", f"{_FOLDER}/test_passed.py")


def listed() -> set[str]:
    """Return the ids on the list."""
    return set(LIST.read_text().split("\n")) - {""} if LIST.exists() else set()


def collected() -> set[str]:
    """Return the ids of all tests of this folder that run against our broker."""
    lines = _pytest("--collect-only", "-q", _FOLDER).stdout.splitlines()
    return {line for line in lines if line.startswith(_FOLDER) and _is_ours(line)}


def _is_ours(test: str) -> bool:
    """Return whether a test uses kavka's broker: it is neither about the machinery nor about Apache's side."""
    if test.startswith(_MACHINERY):
        return False
    return "apache" not in test.partition("[")[2].rstrip("]").split("-")


def _pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)


def _passing(tests: Sequence[str]) -> set[str]:
    lines = _pytest("-q", "-rA", *tests).stdout.splitlines()
    return {line.removeprefix("PASSED ") for line in lines if line.startswith("PASSED ")}


def main() -> None:
    """Add what passes now; fail when something new does not."""
    new = sorted(collected() - listed())
    passing = _passing(new) & set(new) if new else set()
    LIST.write_text("".join(f"{test}\n" for test in sorted(listed() | passing)))
    print(f"{len(passing)} tests added to {LIST.name}, {len(new) - len(passing)} do not pass")
    for test in new:
        if test not in passing:
            print(f"  {test}")
    sys.exit(len(passing) < len(new))


if __name__ == "__main__":
    main()
