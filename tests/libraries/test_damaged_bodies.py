"""A leader takes the damaged compressed bodies that Apache Kafka takes, whose responses are in a table.

`damaged_bodies.txt` has a line for each series of `kavka_compat.damaged_bodies`: the codes that Apache Kafka 3.9 and
4.1 answered when every body was produced to them, `-1*3 0` being three times -1 and a 0. An indented line says where
ours differ: Kafka does not check the offset deltas of uncompressed records, nor at the lengths of compressed ones.
Where the topic has another codec, so that batches are rewritten, both number records from 0 whatever they say.
`make damaged-bodies` asks again.
"""

from __future__ import annotations

import pytest

from kavka.wire.records.batch import decode_records
from kavka.wire.records.batch_check import Allowance, BatchCheck, Checked
from kavka.wire.records.compression import Compression
from kavka.wire.records.validate import BatchRules, begin_check, number_checked, number_produced
from kavka_compat.damaged_bodies import (
    Body,
    all_series,
    batch,
    difference_is_known,
    read_table,
    rewritten_series,
)

SERIES, REWRITTEN = all_series(), rewritten_series()
PRODUCERS = BatchRules()
CODECS = {codec.name.lower(): codec for codec in Compression} | {"uncompressed": Compression.NONE}
THEIRS, OURS = read_table()
NOW = 1_700_000_000_000


def code_of(body: Body, rules: BatchRules = PRODUCERS) -> int:
    """Return what the leader answers, judged at once and step by step; what is taken can be read."""
    buffer = memoryview(bytearray(batch(body)))
    check = begin_check(memoryview(bytearray(buffer)), rules, NOW)
    check.finish()
    found = number_checked(check, 0, 0)
    other = number_produced(buffer, rules, NOW, 11, 0, 0, Allowance())
    if isinstance(other, BatchCheck):
        other.finish()
        other = number_checked(other, 0, 0)
    assert found == other
    if not isinstance(check.result, Checked):
        assert check.result is not None
        return int(check.result.code)
    records = decode_records(check.result.buffer, check.result.header)
    assert [record.offset for record in records] == list(range(body.count))
    return 0


def test_the_table_has_all_series() -> None:
    bodies = SERIES | {name: bodies for name, (_, bodies) in REWRITTEN.items()}
    assert list(THEIRS) == list(bodies)
    assert {name: len(codes) for name, codes in THEIRS.items()} == {
        name: len(of_series) for name, of_series in bodies.items()
    }


@pytest.mark.parametrize("name", SERIES)
def test_damaged_bodies_are_answered_as_apache_kafka_does(name: str) -> None:
    codes = [code_of(body) for body in SERIES[name]]
    assert codes == OURS.get(name, THEIRS[name])


@pytest.mark.parametrize("name", REWRITTEN)
def test_bodies_that_are_rewritten_are_answered_as_apache_kafka_does(name: str) -> None:
    codec, bodies = REWRITTEN[name]
    rules = BatchRules(compression=CODECS[codec])
    codes = [code_of(body, rules) for body in bodies]
    assert codes == OURS.get(name, THEIRS[name])


def test_ours_differ_where_records_would_mislead_consumers_only() -> None:
    for name, codes in OURS.items():
        pairs = zip(THEIRS[name], codes, strict=True)
        assert all(
            theirs == ours or difference_is_known(name, theirs, ours) for theirs, ours in pairs
        )
