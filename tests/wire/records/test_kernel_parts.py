"""The parts of the compiled kernel: all included, all delivered, and all seen by the set-up."""

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
RECORDS = ROOT / "src/kavka/wire/records"


def test_every_part_is_included_once() -> None:
    included = re.findall(r'^include "(.+)"$', (RECORDS / "_kernel.pyx").read_text(), re.M)
    there = [str(path.relative_to(RECORDS)) for path in RECORDS.glob("_kernel_parts/*")]
    assert sorted(included) == sorted(there)
    assert len(included) == len(set(included)) > 1


def test_packages_have_the_sources_of_the_kernel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["kavka"]
    delivered = {path for pattern in patterns for path in (ROOT / "src/kavka").glob(pattern)}
    assert {*RECORDS.glob("_kernel.pyx"), *RECORDS.glob("_kernel_parts/*")} <= delivered


def test_the_setup_notices_a_changed_part(tmp_path: Path) -> None:
    script = (ROOT / "scripts/setup.sh").read_text()
    function = re.search(r"^fingerprint\(\) \{\n.*?^\}$", script, re.M | re.S)
    assert function is not None

    def fingerprint():
        command = ["bash", "-c", f"{function.group()}\nfingerprint"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout

    parts = ("src/k/_kernel.pyx", "src/k/parts/reading.pxi")
    for name in ("pyproject.toml", "setup.py", "scripts/setup.sh", *parts):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one")
    before = fingerprint()
    assert fingerprint() == before
    for name in ("scripts/setup.sh", *parts):
        (tmp_path / name).write_text("two")
        after = fingerprint()
        assert after != before
        before = after
