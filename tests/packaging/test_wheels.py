"""A wheel without the kernel is for every platform, and has what an installation needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("src", "config", "pyproject.toml", "setup.py", "README.md", "LICENSE")


@pytest.mark.slow
def test_a_pure_wheel_serves_with_the_kernel_in_python(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    unwanted = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")
    for name in SOURCES:
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(place, source / name, ignore=unwanted)
        else:
            shutil.copy(place, source / name)
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [*wheel, "--wheel-dir", str(tmp_path / "dist"), str(source)],
        check=True,
        env={**os.environ, "KAVKA_PURE": "1"},
    )
    (built,) = (tmp_path / "dist").iterdir()
    assert built.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(built) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "installed")
    assert "kavka/py.typed" in names
    assert {f"kavka/console/assets/{name}" for name in ("htmx.min.js", "console.css")} <= set(names)
    assert "kavka/console/templates/layout.html" in names
    assert any(name.endswith("share/kavka/config/server.properties") for name in names)
    ours = [name for name in names if not name.startswith("kavka/pipelines/templates/")]
    assert not [name for name in ours if name.endswith((".so", ".c")) or "tests/" in name]
    program = (
        "import kavka; from kavka.wire.records import kernel; print(kavka.__file__, kernel.NAME)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": os.pathsep.join([str(tmp_path / "installed"), *sys.path])},
    )
    path, kernel = done.stdout.split()
    assert path.startswith(str(tmp_path))
    assert kernel == "python"
