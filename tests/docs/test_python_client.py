"""The page on the Python client: its blocks are run in order, beside one broker, and print what it shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = next(
    page
    for page in (Path(__file__).parents[2] / "docs").rglob("python-client.md")
    if page.read_text().startswith("# The Python client\n")
)


@pytest.mark.timeout(120)
@pytest.mark.kavka_cluster(brokers=1)
def test_the_blocks_of_the_page_print_what_it_shows(kavka_cluster):
    blocks = re.findall(r"^```(python|text)\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    assert [language for language, _ in blocks] == ["python", "text"] * (len(blocks) // 2)
    for (_, program), (_, output) in zip(blocks[::2], blocks[1::2], strict=True):
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                program.replace("localhost:9092", kavka_cluster.bootstrap_servers),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, output), program + done.stderr
