"""Bytes written out by hand, field by field, in `golden/messages.txt`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kavka.wire.apis import APIS
from kavka.wire.codec import decode, encode

NAMES: dict[str, Any] = {}
for _api in APIS.values():
    for _cls in (_api.request(), _api.response()):
        NAMES.update(vars(__import__(_cls.__module__, fromlist=["*"])))


def _blocks() -> list[tuple[str, int, str, bytes]]:
    text = (Path(__file__).parent / "golden" / "messages.txt").read_text()
    blocks = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            name, version = lines[0].split()
            data = "".join(line.partition(";")[0] for line in lines[2:])
            blocks.append((name, int(version), lines[1], bytes.fromhex(data)))
    return blocks


BLOCKS = _blocks()
IDS = [f"{name}-{version}-{place}" for place, (name, version, _, _) in enumerate(BLOCKS)]


@pytest.mark.parametrize(("name", "version", "value", "expected"), BLOCKS, ids=IDS)
def test_bytes_are_as_written_out(name: str, version: int, value: str, expected: bytes) -> None:
    message = eval(value, NAMES)
    assert b"".join(encode(message, version)).hex() == expected.hex()  # type: ignore[arg-type]
    assert decode(NAMES[name], version, expected) == message
