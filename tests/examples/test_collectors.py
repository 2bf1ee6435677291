"""The commands of the units of `examples/collectors` run as they are written, with other files and brokers."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path

import pytest

from kavka_compat.brokers import Broker
from support.collectors import collect_once, reader

FOLDER = Path(__file__).parents[2] / "examples" / "collectors"
LINE = '1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 12 "-" "a"\nno such line\n'


def words_of(unit: str, values: dict[str, str]) -> list[str]:
    """Return the words of a unit's command as systemd makes them: `$NAME` is several, `${NAME}` is one."""
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read(FOLDER / unit)
    program, *words = parsed["Service"]["ExecStart"].split()
    assert program.endswith("/bin/kavka")
    assert parsed["Service"]["RestartPreventExitStatus"] == "3"
    found: list[str] = []
    for word in words:
        if word.startswith("$") and not word.startswith("${"):
            found += values[word[1:]].split()
        else:
            for name, value in values.items():
                word = word.replace(f"${{{name}}}", value)
            found.append(word.replace("%H", "h1").replace("%i", "nginx"))
    assert not [word for word in found if "$" in word or "%" in word]
    return found


def environment(name: str) -> dict[str, str]:
    lines = (FOLDER / name).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.mark.compat
def test_the_unit_of_files_collects_an_access_log(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    given = environment("nginx.env")
    (tmp_path / "access.log").write_text(LINE)
    options = shlex.split(given["OPTIONS"])
    options[options.index("--metrics-port") + 1] = "0"
    options[options.index("--dead-letter-topic") + 1] = f"{fresh_name}-dead"
    values = {
        "PATTERNS": f"{tmp_path}/{Path(given['PATTERNS']).name}",
        "TOPIC": fresh_name,
        "SERVERS": kavka_broker.bootstrap,
        "STATE_DIRECTORY": str(tmp_path / "state"),
        "OPTIONS": " ".join(options),
    }
    command, kind, *words = words_of("kavka-collect-files@.service", values)
    assert (command, kind) == ("collect", "files")
    code, said = collect_once(tmp_path / "out", kind, kavka_broker.bootstrap, fresh_name, *words)
    assert code == 0, said
    with reader(kavka_broker.bootstrap, fresh_name) as topic:
        (record,) = topic.read_rest()
    assert (record["fields"]["status"], record["labels"]) == (200, {"site": "shop"})


@pytest.mark.compat
def test_the_units_of_metrics_collect_samples(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    values = {
        "TOPIC": fresh_name,
        "SERVERS": kavka_broker.bootstrap,
        "URLS": "127.0.0.1:9 127.0.0.1:8",
    }
    for unit, label in (("host", "a=1"), ("metrics", "a=2")):
        given = {**values, "OPTIONS": f"--label {label}"}
        _, kind, *words = words_of(f"kavka-collect-{unit}.service", given)
        code, said = collect_once(tmp_path / kind, kind, kavka_broker.bootstrap, fresh_name, *words)
        assert code == 0, said
    with reader(kavka_broker.bootstrap, fresh_name) as topic:
        records = topic.read_rest()
    assert {r["source"] for r in records} == {
        "host", "http://127.0.0.1:9/metrics", "http://127.0.0.1:8/metrics",
    }  # fmt: skip
