"""Write `apache_3_9.txt`: the sample of every message in every version, as Apache Kafka 3.9 encodes it.

And `apache_4_1.txt`: those of what came with 4.x, and of the records of internal topics, some of whose fields did.

    PYTHONPATH=tests:tests/compat .venv/bin/python tests/wire/golden/ask_apache.py

Needs a JDK (`javac` compiles `ApacheEncoder.java` in memory) and the jars of `python -m kavka_compat.artifacts`.
"""

from __future__ import annotations

import base64
import json
import runpy
import subprocess
from pathlib import Path
from typing import Any

from kavka.wire.apis import APIS
from kavka.wire.schema import Kind, ListOf, fields_of, schema_of
from kavka_compat.artifacts import cache_directory
from support.wire_values import sample

HERE = Path(__file__).parent
LAST_OF_3_9 = {
    f"{name}{kind}": version
    for name, version in {
        "Produce": 11,
        "InitProducerId": 5,
        "EndTxn": 4,
        "TxnOffsetCommit": 4,
        "WriteTxnMarkers": 1,
    }.items()
    for kind in ("Request", "Response")
}
"""Messages of which we speak newer versions than 3.9 does."""
YOUNGER = "WriteTxnMarkers"
"""Of which the newer one came after 4.1."""
REMARK = (
    "# Samples (`conftest.sample`) as Apache Kafka {} encodes them; made by ask_apache.py.\n"
    "# A line is: message, version, bytes (none where a body is empty).\n"
)


def main() -> None:
    """Ask for all messages at once: Java starts slowly."""
    stored_classes = runpy.run_path(str(HERE.parent / "test_apache_bytes.py"))["STORED"]
    requests = [
        (cls, version)
        for api in APIS.values()
        for cls in (api.request(), api.response())
        for version in range(api.min_version, api.max_version + 1)
    ]
    stored = [(cls, version) for cls in stored_classes for version in schema_of(cls).versions]
    newer = [one for one in requests if one[1] > LAST_OF_3_9.get(one[0].__name__, one[1])]
    _ask("3.9", [one for one in requests if one not in newer])
    _ask("4.1", stored + [one for one in newer if not one[0].__name__.startswith(YOUNGER)])


def _ask(release: str, wanted: list[tuple[type, int]]) -> None:
    lines = [
        f"{cls.__name__} {version} {json.dumps(_as_json(sample(cls, version), cls, version))}\n"
        for cls, version in wanted
    ]
    command = ["java", "-cp", f"{cache_directory(release)}/*", str(HERE / "ApacheEncoder.java")]
    response = subprocess.run(
        command, input="".join(lines), capture_output=True, text=True, check=True
    )
    assert response.stdout.count("\n") == len(lines), response.stderr
    file = HERE / f"apache_{release.replace('.', '_')}.txt"
    file.write_text(REMARK.format(release) + response.stdout.replace(" \n", "\n"))


def _as_json(value: Any, wire_type: Kind | ListOf | type, version: int) -> Any:
    if isinstance(wire_type, ListOf):
        return [_as_json(one, wire_type.item, version) for one in value]
    if isinstance(wire_type, Kind):
        if wire_type.name == "uuid":
            return base64.urlsafe_b64encode(value).decode().rstrip("=")
        return base64.b64encode(value).decode() if isinstance(value, bytes) else value
    return {
        _json_name(each.name): _as_json(getattr(value, each.name), each.type, version)
        for each in fields_of(wire_type)
        if version in each.versions
    }


def _json_name(name: str) -> str:
    if name == "is_kraft_controller":
        return "isKRaftController"
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


if __name__ == "__main__":
    main()
