"""The tables for users of other clients name every public call of these, and calls that exist here."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka.admin import AdminClient

from kavka.client import Admin, AlterOp, Consumer, Producer
from kavka_compat.artifacts import jars

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference"
CODE = re.compile(r"`([A-Za-z_]+)")


def table(page: str, heading: str) -> list[tuple[str, str]]:
    """Return the rows of the table whose first heading this is."""
    lines = iter((DOCS / page).read_text(encoding="utf-8").splitlines())
    next(line for line in lines if line.startswith(f"| {heading} |"))
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        theirs, ours = line.strip("| ").split(" | ", 1)
        rows.append((theirs, ours))
    return rows


def public_names(kind: type) -> set[str]:
    return {
        name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))
    }


@pytest.mark.parametrize(
    "kind",
    [
        confluent_kafka.Producer,
        confluent_kafka.Consumer,
        AdminClient,
        aiokafka.AIOKafkaProducer,
        aiokafka.AIOKafkaConsumer,
        AIOKafkaAdminClient,
        kafka.KafkaProducer,
        kafka.KafkaConsumer,
        kafka.KafkaAdminClient,
    ],
    ids=lambda kind: kind.__name__,
)
def test_every_call_of_another_client_is_in_its_table(kind: type) -> None:
    rows = table("python-from-other-clients.md", f"`{kind.__name__}`")
    named = {name for theirs, _ in rows for name in CODE.findall(theirs)}
    assert public_names(kind) <= named


def test_javas_admin_has_no_call_that_the_table_lacks() -> None:
    if shutil.which("javap") is None:
        pytest.fail("javap is missing: it comes with a JDK")
    theirs: set[str] = set()
    for release in ("3.9", "4.1"):
        [jar] = [one for one in jars(release) if one.name.startswith("kafka-clients")]
        command = ["javap", "-cp", str(jar), "org.apache.kafka.clients.admin.Admin"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        theirs |= set(re.findall(r"(\w+)\(", listed))
    rows = table("python-admin.md", "Java")
    assert theirs == {name for row, _ in rows for name in CODE.findall(row)}


def test_the_calls_that_the_tables_name_exist_here() -> None:
    known = {name for kind in (Admin, Consumer, Producer) for name in dir(kind)}
    known |= {name for kind in (AlterOp,) for name in kind.__members__}
    text = (DOCS / "python-from-other-clients.md").read_text() + (
        DOCS / "python-admin.md"
    ).read_text()
    rows = [
        line.strip("| ").split(" | ", 1)[1] for line in text.splitlines() if line.startswith("| `")
    ]
    named = {name for ours in rows for name in re.findall(r"`(?:Admin\.)?([a-z]+_[a-z_]+)", ours)}
    words = {
        "timeout_ms",
        "group_metadata",
        "enable_auto_commit",
        "max_records",
        "want_future",
        "timestamp_type",
    }
    assert named - known <= words
