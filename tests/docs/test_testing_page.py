"""The first example of the page on testing, as its reader writes it down."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = next(
    page
    for page in (Path(__file__).parents[2] / "docs").rglob("testing.md")
    if "In `test_orders.py`:" in page.read_text()
)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_first_example_passes_without_a_warning(tmp_path: Path) -> None:
    files = re.findall(
        r"^In `([a-z_]+\.py)`[^\n]*:\n\n(?:<!-- pytest -->\n)?```python\n(.*?)^```",
        PAGE.read_text(),
        re.S | re.M,
    )
    assert [name for name, _ in files] == ["test_orders.py"]
    for name, text in files:
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert "warning" not in done.stdout
