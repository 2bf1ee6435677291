"""Batches with sound and damaged bodies at running brokers; what is taken is read to the end by all clients.

`tests/wire/records/damaged_bodies.txt` says what Apache Kafka answers to each; `make damaged-bodies` writes it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import pytest

from kavka_compat.asked_bodies import ask_all, create_topic, produce_bodies, run_any
from kavka_compat.brokers import Broker
from kavka_compat.damaged_bodies import Body, all_series, read_table, rewritten_series
from kavka_compat.damaged_frames import PLAIN
from kavka_compat.whole_reads import read_by_java, read_by_kavka, read_by_librdkafka

pytestmark = [pytest.mark.compat, pytest.mark.timeout(240)]

SERIES: Final = all_series()
THEIRS, OURS = read_table()
PARTITIONS: Final = 100

JAVA_FAILS: Final = {
    ("lz4: blocks that decompress to nothing", 0),
    ("lz4: blocks that decompress to nothing", 1),
}
"""Bodies at which Java's consumer throws, although Apache Kafka's broker takes them: an lz4 block of nothing."""


LIBRDKAFKA_FAILS: Final[dict[str, Collection[int]]] = {
    "gzip: two members": (0,),
    "gzip: an empty member first": (0,),  # librdkafka aborts the process
    "gzip: parts of the header": (8, 9),
    "snappy: streams end to end": (0, 1, 2, 6),
    "lz4: content sizes": (1, 2, 4, 5, 6),
    "lz4: content checksums": (1, 4),
    "zstd: blocks": (5,),
    "zstd: a frame and one that is cut": range(62),
    "zstd: a long frame and one that is cut": (0,),
}
"""Bodies that librdkafka 2.16 cannot read, although Apache Kafka's broker takes them and its consumer reads them.

It holds some rules of the codecs which Apache Kafka does not check, and reads the first member or frame only.
"""
LIBRDKAFKA_IS_NOT_ASKED: Final = ("behind it", "before it", "a bit flipped", "misleading records")
"""Series in which it fails at many: bytes around the body, and negative lengths of keys and values other than -1.

At the latter it fetches the same batch again without end.
"""


@pytest.fixture(scope="module")
def kavka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with run_any("kavka", tmp_path_factory.mktemp("kavka")) as broker:
        yield broker


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with run_any("3.9", tmp_path_factory.mktemp("apache")) as broker:
        yield broker


Row = tuple[str, int]
"""A series, and the place of a body in it."""


def taken() -> dict[Row, Body]:
    """Return the bodies that kavka takes as they are."""
    return {
        (name, index): body
        for name, bodies in SERIES.items()
        for index, body in enumerate(bodies)
        if OURS.get(name, THEIRS[name])[index] == 0
    }


def put(broker: Broker, topic: str, partitions: int, bodies: list[Body]) -> None:
    """Have the broker take all bodies."""
    create_topic(broker.bootstrap, topic, partitions)
    assert set(produce_bodies(broker.bootstrap, topic, partitions, bodies)) == {0}


def test_apache_kafka_answers_as_the_table_says(apache: Broker, fresh_name: str) -> None:
    assert ask_all(apache.bootstrap, fresh_name, PARTITIONS) == THEIRS


@pytest.mark.long
def test_newer_apache_kafka_answers_as_the_table_says(tmp_path: Path) -> None:
    with run_any("4.1", tmp_path) as broker:
        assert ask_all(broker.bootstrap, "all", PARTITIONS) == THEIRS


def test_kavka_answers_as_the_table_says_and_reads_what_it_took(
    kavka: Broker, fresh_name: str
) -> None:
    codes = ask_all(kavka.bootstrap, fresh_name, PARTITIONS)
    assert codes == {name: OURS.get(name, theirs) for name, theirs in THEIRS.items()}
    reads = read_by_kavka(kavka.bootstrap, fresh_name, PARTITIONS)
    assert sum(int(read.split()[0]) for read in reads) == sum(
        body.count for body in taken().values()
    )


@pytest.mark.parametrize("release", ["3.9", "4.1"])
def test_javas_consumer_reads_what_kavka_took(kavka: Broker, release: str, fresh_name: str) -> None:
    at = (kavka.bootstrap, fresh_name, PARTITIONS)
    bodies = [body for row, body in taken().items() if row not in JAVA_FAILS]
    put(kavka, fresh_name, PARTITIONS, bodies)
    assert read_by_java(release, *at) == read_by_kavka(*at)


def test_librdkafka_reads_what_kavka_took(kavka: Broker, fresh_name: str) -> None:
    at = (kavka.bootstrap, fresh_name, PARTITIONS)
    bodies = [
        body
        for (name, index), body in taken().items()
        if not name.endswith(LIBRDKAFKA_IS_NOT_ASKED)
        and index not in LIBRDKAFKA_FAILS.get(name, ())
    ]
    put(kavka, fresh_name, PARTITIONS, bodies)
    assert read_by_librdkafka(*at) == read_by_kavka(*at)


def test_whatever_kavka_takes_is_taken_by_apache_kafka() -> None:
    """So clients that fail at some of it fail at Apache Kafka, too."""
    assert all(THEIRS[name][index] == 0 for name, index in taken())
    assert taken().keys() >= JAVA_FAILS


def test_what_kavka_refuses_and_apache_kafka_takes_loses_records_of_javas_consumer(
    apache: Broker, fresh_name: str
) -> None:
    """Each is one batch of a partition, with a sound one of three records behind it."""
    refused = [
        (name, index, body)
        for name, codes in OURS.items()
        if name in SERIES
        for index, body in enumerate(SERIES[name])
        if THEIRS[name][index] == 0 and codes[index] != 0
    ]
    count = len(refused)
    assert count > 300
    bodies = [body for *_, body in refused]
    put(apache, fresh_name, count, [*bodies, *[Body(0, PLAIN)] * count])
    reads = read_by_java("3.9", apache.bootstrap, fresh_name, count)
    lost = [read.endswith(("Exception", "Error")) or int(read.split()[0]) < 2 * 3 for read in reads]
    assert [row[:2] for row, is_lost in zip(refused, lost, strict=True) if not is_lost] == []


@pytest.mark.parametrize("name", rewritten_series())
def test_records_of_rewritten_batches_are_numbered_as_by_apache_kafka(
    kavka: Broker, apache: Broker, name: str, fresh_name: str
) -> None:
    """Java's consumer finds the same records at the same offsets of both."""
    codec, bodies = rewritten_series()[name]
    accepted = [body for body, code in zip(bodies, THEIRS[name], strict=True) if code == 0]
    reads = []
    for broker in (kavka, apache):
        topic = f"{fresh_name}-{codec}"
        create_topic(broker.bootstrap, topic, PARTITIONS, compression__type=codec)
        codes = produce_bodies(broker.bootstrap, topic, PARTITIONS, accepted)
        assert set(codes) == {0}
        reads.append(read_by_java("3.9", broker.bootstrap, topic, PARTITIONS))
    assert reads[0] == reads[1]
